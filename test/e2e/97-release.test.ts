import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { NGINX } from "../cluster/addons/load-balancers.ts";
import { buildDockerfile } from "../cluster/buildah.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { ctr } from "../cluster/node/up.ts";
import { withCluster } from "../cluster/whole.ts";
import { OPTED_IN, optIn } from "./opted-in.ts";
import { NAME, openShop, SHOP, setIngressAddress } from "./shop.ts";
import { publishedMap, removeSwitchback, restoreCertManager, SYSTEM, webhookAnswers } from "./switchback.ts";
import { unnoticed } from "./unnoticed.ts";

// The life of a release: the image that the Dockerfile builds, and the chart that `npm run release` writes, packaged by
// Helm. No node can pull anything, so the image is imported as docs/install.md says for clusters without a network.

export const needs = ["ipv4"];

const TOP = join(import.meta.dirname, "..", "..");
const REGISTRY = "released.test";
const { version } = JSON.parse(readFileSync(join(TOP, "package.json"), "utf8")) as { version: string };
/** The next release. It differs only in its version. */
const NEXT = "0.999.0";
const imageOf = (release: string) => `${REGISTRY}/switchback:${release}`;

const folder = mkdtempSync(join(tmpdir(), "switchback-e2e-release-"));
const chartOf = (release: string) => join(folder, `switchback-${release}.tgz`);
let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
  await clear();
  execFileSync(process.execPath, [join(TOP, "tools/release/main.ts"), "--out", folder, "--registry", REGISTRY]);
  for (const release of [version, NEXT]) {
    const versions = ["--version", release, "--app-version", release];
    await cluster.helm("package", join(folder, "chart"), "--destination", folder, ...versions);
  }
  const archive = join(folder, "image.tar");
  await buildDockerfile(TOP, imageOf(version), folder, archive);
  await ctr("images", "import", archive);
  await ctr("images", "tag", "--force", imageOf(version), imageOf(NEXT));
  await openShop(cluster);
  await setIngressAddress(cluster, "app", NGINX.address);
  // The chart creates its Role for restarts in this namespace.
  await cluster.apply({ apiVersion: "v1", kind: "Namespace", metadata: { name: OPTED_IN } });
});

after(async () => {
  if (cluster !== undefined) {
    await clear();
    await ctr("images", "rm", imageOf(version), imageOf(NEXT));
  }
  rmSync(folder, { recursive: true });
});

/** Removes Switchback and the shop from the cluster. */
async function clear(): Promise<void> {
  await removeSwitchback(cluster);
  await restoreCertManager(cluster);
  await cluster.kubectl("delete", "namespace", SHOP, OPTED_IN, "--ignore-not-found", "--timeout=120s");
}

/** Waits until every pod of ours runs this release, and drained pods are gone. No container may have restarted. */
async function runs(release: string): Promise<void> {
  await cluster.releaseRuns("switchback", SYSTEM);
  await cluster.until(`the pods to run ${imageOf(release)} alone`, 180, async () => {
    const { items } = await cluster.get<{
      items: {
        spec: { containers: { image: string }[] };
        status: { containerStatuses?: { restartCount: number }[] };
      }[];
    }>("-n", SYSTEM, "pods");
    const restarted = items
      .flatMap(({ status }) => status.containerStatuses ?? [])
      .filter((one) => one.restartCount > 0);
    assert.deepEqual(restarted, []);
    // Both releases have the same image, so the status may name it by either tag.
    const containers = items.flatMap(({ spec }) => spec.containers);
    return (containers.length > 0 && containers.every(({ image }) => image === imageOf(release))) || undefined;
  });
  await webhookAnswers(cluster);
  await cluster.until("the name is published", 60, async () => {
    return (await publishedMap(cluster)).includes(NAME) || undefined;
  });
}

test("the packaged chart installs the imported image, and maps the name", async () => {
  const optedIn = ["--set", `config.optIn.namespaces={cert-manager,${OPTED_IN}}`];
  const created = ["--namespace", SYSTEM, "--create-namespace"];
  await cluster.helm("install", "switchback", chartOf(version), ...created, ...optedIn);
  await runs(version);
});

test("it is upgraded to the next release, and nobody notices that the upgrade is rolled back", async (t) => {
  const inSystem = ["--namespace", SYSTEM];
  await cluster.helm("upgrade", "switchback", chartOf(NEXT), ...inSystem, "--reset-then-reuse-values");
  await runs(NEXT);
  // This annotation fixes the pod's one name, so nothing is restarted later.
  await optIn(cluster, { "switchback.dev/hosts": NAME });
  await unnoticed(cluster, t, async () => {
    await cluster.helm("rollback", "switchback", ...inSystem);
    await runs(version);
  });
});

test("an uninstall restarts the pods that have its addresses, and leaves nothing", async () => {
  await cluster.helm("uninstall", "switchback", "--namespace", SYSTEM);
  const left = await cluster.kubectl("get", "clusterroles,mutatingwebhookconfigurations", "-o", "name");
  assert.doesNotMatch(left, /switchback/);
  const pods = await cluster.kubectl("get", "pods", "-A", "-o", "yaml");
  assert.doesNotMatch(pods, /switchback\.dev\/injected/);
});
