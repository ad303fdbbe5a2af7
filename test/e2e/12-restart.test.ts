import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { CERT_MANAGER } from "../cluster/addons/cert-manager.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { withCluster } from "../cluster/whole.ts";
import { certificateIsReady, ingress, orderCertificate } from "./shop.ts";
import { certManagerInStep, certManagerWorkloads, installSwitchback } from "./switchback.ts";

// With `restart`, the controller restarts pods that do not have the current names. Nobody restarts cert-manager by
// hand.

export const needs = ["node"];

const NAME = "restart.example.com";

let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
});
after(async () => {
  await installSwitchback(cluster);
});

test("if the install lists the namespace, pods from before its opt-in are injected automatically", async () => {
  await installSwitchback(cluster, { config: { restart: { namespaces: [CERT_MANAGER] } } });
  await certManagerInStep(cluster);
});

test("a new Ingress, with cert-manager running: its Certificate becomes Ready by itself", async (t) => {
  const created = performance.now();
  await cluster.apply(ingress("restart", NAME, "nginx", "restart-tls"));
  await orderCertificate(cluster, NAME, "restart-tls");
  await cluster.until("cert-manager was restarted", 60, async () => {
    const controller = (await certManagerWorkloads(cluster)).find(({ name }) => name === "cert-manager");
    return (controller?.standing === "in-step" && controller.lastRestart !== undefined) || undefined;
  });
  t.diagnostic(`Ingress created to a pod with the name: ${((performance.now() - created) / 1000).toFixed(1)} s`);
  await certificateIsReady(cluster, "restart-tls");
  t.diagnostic(`Ingress created to Certificate Ready: ${((performance.now() - created) / 1000).toFixed(1)} s`);
  await certManagerInStep(cluster);
  assert.ok((await certManagerWorkloads(cluster)).every(({ stale }) => stale === 0));
});
