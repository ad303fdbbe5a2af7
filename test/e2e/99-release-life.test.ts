import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { NGINX } from "../cluster/addons/load-balancers.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { ctr } from "../cluster/node/up.ts";
import { withCluster } from "../cluster/whole.ts";
import { copyTree, replaceInFile } from "../copy-tree.ts";
import { OPTED_IN, optIn } from "./opted-in.ts";
import { ReleaseFolder } from "./release-folder.ts";
import {
  CERTIFICATE,
  certificateIsReady,
  isCertificateReady,
  NAME,
  openShop,
  orderCertificate,
  SHOP,
  setIngressAddress,
} from "./shop.ts";
import { publishedMap, removeSwitchback, restoreCertManager, SYSTEM, webhookAnswers } from "./switchback.ts";
import { unnoticed } from "./unnoticed.ts";

// The life of a release, with its own page and only from its folder: install, healing, upgrade, rollback, removal. In
// both profiles. Only with --all.

const TOP = join(import.meta.dirname, "..", "..");
const FOLLOWING_VERSION = "0.999.0";
/** Lets an uninstall restart the pods that have addresses of Switchback. It replaces the list on the page. */
const MAY_RESTART = `--set 'config.optIn.namespaces={${OPTED_IN}}'`;

const folder = mkdtempSync(join(tmpdir(), "switchback-e2e-life-"));
let cluster: Cluster;
let release: ReleaseFolder;
let following: ReleaseFolder;

for (const [profile, flag] of [
  ["default", ""],
  ["small", "--set profile=small"],
] as const) {
  describe(`profile ${profile}`, () => live(flag));
}

before(async () => {
  cluster = await withCluster();
  release = await ReleaseFolder.make(TOP, subfolder("this"));
  following = await ReleaseFolder.make(followingTree(), subfolder("following"));
});

after(async () => {
  if (cluster !== undefined) {
    await clear();
    const images = [release?.image, following?.image].filter((image) => image !== undefined);
    if (images.length > 0) await ctr("images", "rm", ...images);
  }
  rmSync(folder, { recursive: true });
});

function subfolder(name: string): string {
  const path = join(folder, name);
  mkdirSync(path);
  return path;
}

/** A copy of this checkout as the next release, with another version. */
function followingTree(): string {
  const tree = copyTree(subfolder("tree"));
  replaceInFile(join(tree, "package.json"), /(?<="version": ")[^"]+/, FOLLOWING_VERSION);
  replaceInFile(join(tree, "manifests/chart/Chart.yaml"), /(?<=^(?:v|appV)ersion: ).+$/gm, FOLLOWING_VERSION);
  const git = (...args: string[]) => execFileSync("git", ["-C", tree, ...args]);
  git("init", "-q");
  git("add", "--all");
  git("-c", "user.name=e2e", "-c", "user.email=e2e@example.com", "commit", "-q", "-m", "the next release");
  return tree;
}

/** Removes Switchback and the shop from the cluster. */
async function clear(): Promise<void> {
  await removeSwitchback(cluster);
  await restoreCertManager(cluster);
  await cluster.kubectl("delete", "namespace", SHOP, OPTED_IN, "--ignore-not-found", "--timeout=120s");
}

/**
 * Waits until every pod of ours runs this image, no other image runs, and drained pods are gone. No container may
 * have restarted.
 */
async function runs(image: string): Promise<void> {
  await cluster.releaseRuns("switchback", SYSTEM);
  await cluster.until(`the pods to run ${image} alone`, 180, async () => {
    const { items } = await cluster.get<{
      items: { status: { containerStatuses?: { image: string; restartCount: number }[] } }[];
    }>("-n", SYSTEM, "pods");
    const containers = items.flatMap(({ status }) => status.containerStatuses ?? []);
    assert.deepEqual(
      containers.filter(({ restartCount }) => restartCount > 0),
      [],
    );
    return (containers.length > 0 && containers.every((one) => one.image === image)) || undefined;
  });
  await webhookAnswers(cluster);
  await cluster.until("the name is published", 60, async () => {
    return (await publishedMap(cluster)).includes(NAME) || undefined;
  });
}

async function load(one: ReleaseFolder): Promise<void> {
  assert.match(await one.follow(1), new RegExp(`^switchback-image-${one.version}\\.tar: OK$`, "m"));
  await one.follow(2);
}

async function nothingIsLeft(): Promise<void> {
  const left = await cluster.kubectl("get", "clusterroles,mutatingwebhookconfigurations", "-o", "name");
  assert.doesNotMatch(left, /switchback/);
  const pods = await cluster.kubectl("get", "pods", "-A", "-o", "yaml");
  assert.doesNotMatch(pods, /switchback\.dev\/injected/);
}

function live(flag: string): void {
  before(async () => {
    await clear();
    await openShop(cluster);
    await setIngressAddress(cluster, "app", NGINX.address);
    await orderCertificate(cluster);
  });

  test("the page's commands load and install it, it heals a Certificate, and its removal leaves nothing", async () => {
    await load(release);
    assert.equal(await isCertificateReady(cluster), false, "without Switchback its self-check fails");
    await release.follow(3, flag);
    await runs(release.image);
    await certificateIsReady(cluster, CERTIFICATE);
    assert.match(await release.follow(4), new RegExp(NAME));
    await release.follow("remove");
    await nothingIsLeft();
  });

  test("it is installed again, and a pod opts in", async () => {
    // The chart creates its Role for restarts in this namespace.
    await cluster.apply({ apiVersion: "v1", kind: "Namespace", metadata: { name: OPTED_IN } });
    await release.follow(3, `${MAY_RESTART} ${flag}`);
    await runs(release.image);
    // This annotation fixes the pod's one name, so nothing is restarted later.
    await optIn(cluster, { "switchback.dev/hosts": NAME });
  });

  test("it is upgraded to the next release", async (t) => {
    await load(following);
    await unnoticed(cluster, t, async () => {
      await following.follow("upgrade");
      await runs(following.image);
    });
  });

  test("the upgrade is rolled back to it", async (t) => {
    await unnoticed(cluster, t, async () => {
      await following.follow("roll back");
      await runs(release.image);
    });
  });

  test("the page's commands remove it, after the pods that have its addresses", async () => {
    await release.follow("remove");
    await nothingIsLeft();
  });
}
