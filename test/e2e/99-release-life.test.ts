import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { NGINX } from "../cluster/addons/load-balancers.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { ctr, importImages } from "../cluster/node/up.ts";
import { PRODUCT_IMAGE, type ProductTree, withProductImage } from "../cluster/product-image.ts";
import { progressLines } from "../cluster/progress.ts";
import { releaseBefore } from "../cluster/release-before.ts";
import { withCluster } from "../cluster/whole.ts";
import { getMapped, OPTED_IN, optIn } from "./opted-in.ts";
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
import {
  applyChart,
  publishedMap,
  removeSwitchback,
  restoreCertManager,
  SYSTEM,
  webhookAnswers,
} from "./switchback.ts";
import { unnoticed } from "./unnoticed.ts";

// The life of a release by its own page, from its folder alone: installed, healing, upgraded to from the release before, upgraded from, gone
// back to, removed; in both profiles. Only with --all. A checkout without the history has no release before.

const TOP = join(import.meta.dirname, "..", "..");
const FOLLOWING_VERSION = "0.999.0";
const TAG_BEFORE = "e2e-before";
const IMAGE_BEFORE = `${PRODUCT_IMAGE.repository}:${TAG_BEFORE}`;
/** NetworkPolicies are off: the release before had none that its tests enforced. An uninstall may restart who has addresses. */
const VALUES_BEFORE = { networkPolicy: { enabled: false }, config: { restart: { namespaces: [OPTED_IN] } } };
/** The release before was installed with an image of another name than the chart's. */
const IMAGE_OF_CHART = "--set image.repository=switchback,image.tag=,image.pullPolicy=IfNotPresent";

const folder = mkdtempSync(join(tmpdir(), "switchback-e2e-life-"));
let cluster: Cluster;
let release: ReleaseFolder;
let following: ReleaseFolder;

const earlier = await releaseBefore();
if (earlier !== undefined) {
  for (const [profile, flag] of [
    ["default", ""],
    ["small", "--set profile=small"],
  ] as const)
    describe(`profile ${profile}`, () => live(profile, flag, { folder: earlier, tag: TAG_BEFORE }));
}

before(async () => {
  if (earlier === undefined) return;
  cluster = await withCluster();
  await withProductImage((image) => importImages([image], progressLines()), { folder: earlier, tag: TAG_BEFORE });
  release = await ReleaseFolder.make(TOP, subfolder("this"));
  following = await ReleaseFolder.make(followingTree(), subfolder("following"));
});

after(async () => {
  if (cluster !== undefined) {
    await clear();
    const images = [IMAGE_BEFORE, release?.image, following?.image].filter((image) => image !== undefined);
    await ctr("images", "rm", ...images);
  }
  rmSync(folder, { recursive: true });
});

function subfolder(name: string): string {
  const path = join(folder, name);
  mkdirSync(path);
  return path;
}

/** This checkout as the next release would be: with another version. */
function followingTree(): string {
  const tree = subfolder("tree");
  const git = (at: string, ...args: string[]) => execFileSync("git", ["-C", at, ...args], { encoding: "utf8" });
  for (const path of git(TOP, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    .split("\0")
    .filter(Boolean)) {
    mkdirSync(dirname(join(tree, path)), { recursive: true });
    cpSync(join(TOP, path), join(tree, path));
  }
  symlinkSync(join(TOP, "node_modules"), join(tree, "node_modules"));
  for (const [path, pattern] of [
    ["package.json", /"version": "([^"]+)"/],
    ["manifests/chart/Chart.yaml", /^(?:v|appV)ersion: (.+)$/gm],
  ] as const) {
    const text = readFileSync(join(tree, path), "utf8");
    const changed = text.replace(pattern, (line, version: string) => line.replace(version, FOLLOWING_VERSION));
    assert.notEqual(changed, text, path);
    writeFileSync(join(tree, path), changed);
  }
  git(tree, "init", "-q");
  git(tree, "add", "--all");
  git(tree, "-c", "user.name=e2e", "-c", "user.email=e2e@example.com", "commit", "-q", "-m", "the next release");
  return tree;
}

/** The cluster without Switchback and without the shop. */
async function clear(): Promise<void> {
  await removeSwitchback(cluster);
  await restoreCertManager(cluster);
  await cluster.kubectl("delete", "namespace", SHOP, OPTED_IN, "--ignore-not-found", "--timeout=120s");
}

/** Every pod of ours runs this image and no other does, the drained ones gone, and none has ever ended by itself. */
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

function live(profile: "default" | "small", flag: string, treeBefore: ProductTree): void {
  before(async () => {
    await clear();
    await openShop(cluster);
    await setIngressAddress(cluster, "app", NGINX.address);
    await orderCertificate(cluster);
  });

  test("by the page it is loaded and installed, heals a Certificate, and leaves nothing", async () => {
    await load(release);
    await release.follow(3, flag);
    await runs(release.image);
    assert.equal(await isCertificateReady(cluster), false, "without Switchback its self-check fails");
    await release.follow(4);
    await certificateIsReady(cluster, CERTIFICATE);
    assert.match(await release.follow(5), new RegExp(NAME));
    await release.follow("remove");
    await nothingIsLeft();
  });

  test("the release before is upgraded to it", async (t) => {
    await cluster.kubectl("label", "namespace", "cert-manager", "switchback.dev/inject-");
    // The chart's Role for restarts is in it.
    const labels = { "switchback.dev/inject": "enabled" };
    await cluster.apply({ apiVersion: "v1", kind: "Namespace", metadata: { name: OPTED_IN, labels } });
    await applyChart(cluster, VALUES_BEFORE, treeBefore);
    await runs(IMAGE_BEFORE);
    // Its one name does not change: nothing is restarted.
    await optIn(cluster, { "switchback.dev/hosts": NAME });
    const upgrade = async () => {
      await release.follow("upgrade", `${IMAGE_OF_CHART} ${flag}`);
      await runs(release.image);
    };
    if (profile === "default") return await unnoticed(cluster, t, upgrade);
    // The release before had one profile, and a change of it is not without a gap (docs/sizing.md).
    await upgrade();
    const upgraded = performance.now();
    await cluster.until("the running pod reaches the name again", 60, async () => {
      return (await getMapped(cluster, `http://${NAME}/`).catch(() => undefined))?.status === 200 || undefined;
    });
    t.diagnostic(`the name was reached ${((performance.now() - upgraded) / 1000).toFixed(1)} s after the rollout`);
  });

  test("it is upgraded to the next release", async (t) => {
    await load(following);
    await unnoticed(cluster, t, async () => {
      await following.follow("upgrade");
      await runs(following.image);
    });
  });

  test("the next release is rolled back to it", async (t) => {
    await unnoticed(cluster, t, async () => {
      await following.follow("go back");
      await runs(release.image);
    });
  });

  test("it is removed by the page, after the pods that have its addresses", async () => {
    await release.follow("remove");
    await nothingIsLeft();
  });
}
