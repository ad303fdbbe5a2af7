import assert from "node:assert/strict";
import { before, test } from "node:test";
import { CERT_MANAGER } from "../cluster/addons/cert-manager.ts";
import { NGINX } from "../cluster/addons/load-balancers.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { FAMILIES, withPort } from "../cluster/node/layout.ts";
import { withCluster } from "../cluster/whole.ts";
import { certificateIsReady, getOutside, ingress, isCertificateReady, NAME, orderCertificate } from "./shop.ts";
import {
  certManagerInStep,
  frontAddresses,
  installSwitchback,
  OPT_IN,
  publishedMap,
  restartCertManager,
  SYSTEM,
} from "./switchback.ts";

// The README's cure, which is one command.

export const needs = ["node"];

const LATER = "later.example.com";

let cluster: Cluster;
let fronts: string[];

before(async () => {
  cluster = await withCluster();
  assert.equal(await isCertificateReady(cluster), false, "run 00-failure first: it leaves a Challenge pending");
});

test("the chart installs, and the name of the Ingress is mapped to the front Service", async () => {
  await installSwitchback(cluster, { config: { optIn: { namespaces: [CERT_MANAGER] } } });
  fronts = await frontAddresses(cluster, "ingress-nginx");
  assert.equal(fronts.length, FAMILIES.length);
  const map = await cluster.until("the name is published", 30, async () => {
    const text = await publishedMap(cluster);
    return text.includes(NAME) ? text : undefined;
  });
  for (const front of fronts) assert.match(map, new RegExp(`^${front}\\s.*\\b${NAME}\\b`, "m"));
});

test("the proxies of the image detect that the linux engine works in a restricted pod", async () => {
  const logs = await cluster.logs(SYSTEM, "app.kubernetes.io/component=proxy");
  assert.match(logs, /"engine":"linux"/);
  assert.doesNotMatch(logs, /"engine":"portable"/);
});

test("the Certificate is issued without a further command, and cert-manager's pod shows the mapping", async (t) => {
  const installed = performance.now();
  await certificateIsReady(cluster);
  t.diagnostic(`install to Certificate Ready: ${((performance.now() - installed) / 1000).toFixed(1)} s`);
  await certManagerInStep(cluster);
  await cluster.rolledOut(CERT_MANAGER, "deployment/cert-manager");
  const controller = ["-l", "app.kubernetes.io/component=controller"];
  const described = await cluster.kubectl("-n", CERT_MANAGER, "describe", "pod", ...controller);
  assert.equal(
    /switchback\.dev\/injected: (.*)/.exec(described)?.[1],
    fronts.map((front) => `${front} ${NAME}`).join("; "),
  );
});

test("if a label opts cert-manager in instead, it keeps the names without a restart", async () => {
  await cluster.kubectl("label", "namespace", CERT_MANAGER, OPT_IN, "--overwrite");
  const before = await podsOfCertManager();
  await installSwitchback(cluster);
  assert.equal(await podsOfCertManager(), before);
});

test("a later name needs a restart of cert-manager, and then its Certificate is issued too", async (t) => {
  const created = performance.now();
  await cluster.apply(ingress("later", LATER, "nginx", "later-tls"));
  await orderCertificate(cluster, LATER, "later-tls");
  await cluster.until(
    "the name is published",
    30,
    async () => (await publishedMap(cluster)).includes(LATER) || undefined,
  );
  await restartCertManager(cluster);
  await certificateIsReady(cluster, "later-tls");
  t.diagnostic(`Ingress created to Certificate Ready: ${((performance.now() - created) / 1000).toFixed(1)} s`);
});

test("outside clients get the certificate chain of the ACME server", async () => {
  const answer = await cluster.until("the new certificate is served", 30, async () => {
    const got = await getOutside(cluster, `https://${NAME}/`, withPort(NGINX.address, 443));
    return got.names?.includes(NAME) ? got : undefined;
  });
  assert.equal(answer.status, 200);
  assert.match(answer.issuer ?? "", /^Pebble Intermediate CA/);
});

async function podsOfCertManager(): Promise<string> {
  return await cluster.kubectl("-n", CERT_MANAGER, "get", "pods", "-o", "name", "--sort-by=.metadata.name");
}
