import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { NGINX } from "../cluster/addons/load-balancers.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { ctr } from "../cluster/node/up.ts";
import { withCluster } from "../cluster/whole.ts";
import { ReleaseFolder } from "./release-folder.ts";
import {
  certificateIsReady,
  ingress,
  isCertificateReady,
  openShop,
  orderCertificate,
  SHOP,
  setIngressAddress,
} from "./shop.ts";
import { removeSwitchback, restoreCertManager, SYSTEM, webhookAnswers } from "./switchback.ts";

// Installs a release only from its air-gap archive, with the commands of the page in it. It uses no checkout and no
// registry.

const TOP = join(import.meta.dirname, "..", "..");
const COMPONENTS = ["controller", "webhook", "proxy"];
const HOST = "released.example.com";

const folder = mkdtempSync(join(tmpdir(), "switchback-e2e-release-"));
let release: ReleaseFolder;
let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
  await removeSwitchback(cluster);
  await restoreCertManager(cluster);
  await cluster.kubectl("delete", "namespace", SHOP, "--ignore-not-found", "--timeout=120s");
  await openShop(cluster);
  await cluster.apply(ingress("released", HOST, "nginx", "released-tls"));
  await setIngressAddress(cluster, "released", NGINX.address);
  await orderCertificate(cluster, HOST, "released-tls");
  release = await ReleaseFolder.make(TOP, folder);
});

after(async () => {
  if (cluster !== undefined) {
    await removeSwitchback(cluster);
    await restoreCertManager(cluster);
    await cluster.kubectl("delete", "namespace", SHOP, "--ignore-not-found", "--timeout=120s");
    if (release !== undefined) await ctr("images", "rm", release.image);
  }
  rmSync(folder, { recursive: true });
});

test("the checksums match, and the image is imported under the name in the chart", async () => {
  assert.match(await release.follow(1), new RegExp(`^switchback-image-${release.version}\\.tar: OK$`, "m"));
  await release.follow(2);
  assert.match(await ctr("images", "ls", "-q"), new RegExp(`^${release.image}$`, "m"));
});

test("the chart in the archive installs, and its pods run the imported image", async () => {
  assert.equal(await isCertificateReady(cluster, "released-tls"), false, "without Switchback its self-check fails");
  await release.follow(3);
  await cluster.releaseRuns("switchback", SYSTEM);
  await webhookAnswers(cluster);
  const { items } = await cluster.get<{ items: { status: { containerStatuses: { image: string }[] } }[] }>(
    ...["-n", SYSTEM, "pods"],
  );
  const images = items.flatMap(({ status }) => status.containerStatuses.map(({ image }) => image));
  assert.ok(images.length > 0);
  assert.deepEqual([...new Set(images)], [release.image]);
});

test("the install command opts cert-manager in, and its Certificate is issued without another command", async (t) => {
  const installed = performance.now();
  await certificateIsReady(cluster, "released-tls");
  t.diagnostic(`installed to Certificate Ready: ${((performance.now() - installed) / 1000).toFixed(1)} s`);
  assert.match(await release.follow(4), new RegExp(HOST));
});

test("the page's commands remove the release, and take its addresses out of the pods", async () => {
  await release.follow("remove");
  const left = await cluster.kubectl("get", "clusterroles,mutatingwebhookconfigurations", "-o", "name");
  assert.doesNotMatch(left, /switchback/);
  const pods = await cluster.kubectl("get", "pods", "-A", "-o", "yaml");
  assert.doesNotMatch(pods, new RegExp(HOST));
});

test("without Helm, its kustomization installs a working webhook, and can be deleted again", async () => {
  await release.run("kubectl apply --server-side -k .");
  try {
    await cluster.rolledOut(SYSTEM, ...COMPONENTS.map((component) => `deployment/switchback-${component}`));
    await webhookAnswers(cluster);
  } finally {
    await release.run("kubectl delete -k .");
  }
});
