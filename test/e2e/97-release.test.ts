import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { NGINX } from "../cluster/addons/load-balancers.ts";
import { binary } from "../cluster/binaries.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { nodeProgram } from "../cluster/node/kubectl.ts";
import { CONTAINERD_SOCKET } from "../cluster/node/layout.ts";
import { ctr } from "../cluster/node/up.ts";
import { usableBase } from "../cluster/release-base.ts";
import { withCluster } from "../cluster/whole.ts";
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

// A release, installed from its air-gap archive alone by the commands of the page in it: no checkout, no registry.

const TOP = join(import.meta.dirname, "..", "..");
const PARTS = ["image", "chart", "manifests", "air-gap"];
const HOST = "released.example.com";
const { version } = JSON.parse(readFileSync(join(TOP, "package.json"), "utf8")) as { version: string };
const IMAGE = `docker.io/library/switchback:${version}`;

const folder = mkdtempSync(join(tmpdir(), "switchback-e2e-release-"));
const programs = join(folder, "programs");
let unpacked: string;
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
  await givePrograms();
  const args = ["--out", join(folder, "release"), "--only", PARTS.join(","), "--dirty", ...(await usableBase()).args];
  execFileSync(process.execPath, [join(TOP, "release", "main.ts"), ...args], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  execFileSync("tar", ["-xf", ...globSync("release/switchback-air-gap-*.tar", { cwd: folder }), "-C", folder], {
    cwd: folder,
  });
  unpacked = join(folder, `switchback-${version}`);
});

after(async () => {
  if (cluster !== undefined) {
    await removeSwitchback(cluster);
    await restoreCertManager(cluster);
    await cluster.kubectl("delete", "namespace", SHOP, "--ignore-not-found", "--timeout=120s");
    await ctr("images", "rm", IMAGE);
  }
  rmSync(folder, { recursive: true });
});

/** What a person on the node has on the PATH. */
async function givePrograms(): Promise<void> {
  mkdirSync(programs);
  for (const name of ["kubectl", "helm"] as const) symlinkSync(await binary(name), join(programs, name));
  const script = (name: string, text: string) =>
    writeFileSync(join(programs, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  // The socket of this node's containerd is not where everybody's is.
  script("ctr", `exec ${await binary("ctr")} --address ${CONTAINERD_SOCKET} "$@"`);
  script("sudo", `exec "$@"`);
}

/** The commands of a step of the page; without a number those that remove it. */
function commands(step?: number): string[] {
  const page = readFileSync(join(unpacked, "INSTALL.md"), "utf8").split("\n## ")[0] ?? "";
  const [, text = ""] = page.split(step === undefined ? /^To remove it/m : new RegExp(`^${step}\\. `, "m"));
  const block = /(?:^ {4,}\S.*\n)+/m.exec(text)?.[0] ?? "";
  const lines = block.split("\n").map((line) => line.trim());
  return lines.filter((line) => line !== "");
}

/** Runs them as they stand, in the folder of the archive; what they said. */
async function followPage(step?: number): Promise<string> {
  const script = commands(step).join(" && ");
  assert.notEqual(script, "", `INSTALL.md has step ${step}`);
  const command = `cd ${unpacked} && PATH=${programs}:$PATH && ${script}`;
  const { code, stdout, stderr } = await nodeProgram("sh", ["-c", command]);
  assert.equal(code, 0, `${script}: ${stderr}`);
  return stdout;
}

test("the sums hold, and the image is imported under the name that the chart has", async () => {
  assert.match(await followPage(1), new RegExp(`^switchback-image-${version}\\.tar: OK$`, "m"));
  await followPage(2);
  assert.match(await ctr("images", "ls", "-q"), new RegExp(`^${IMAGE}$`, "m"));
});

test("the chart of the archive installs, and its pods run the imported image", async () => {
  await followPage(3);
  await cluster.releaseRuns("switchback", SYSTEM);
  await webhookAnswers(cluster);
  const { items } = await cluster.get<{ items: { status: { containerStatuses: { image: string }[] } }[] }>(
    ...["-n", SYSTEM, "pods"],
  );
  const images = items.flatMap(({ status }) => status.containerStatuses.map(({ image }) => image));
  assert.ok(images.length > 0);
  assert.deepEqual([...new Set(images)], [IMAGE]);
});

test("opted in by the page, cert-manager gets its Certificate", async (t) => {
  assert.equal(await isCertificateReady(cluster, "released-tls"), false, "without Switchback its self-check fails");
  const labelled = performance.now();
  await followPage(4);
  await certificateIsReady(cluster, "released-tls");
  t.diagnostic(`label to Certificate Ready: ${((performance.now() - labelled) / 1000).toFixed(1)} s`);
  assert.match(await followPage(5), new RegExp(HOST));
});

test("it leaves by the page, and takes its addresses out of the pods", async () => {
  await followPage();
  const left = await cluster.kubectl("get", "clusterroles,mutatingwebhookconfigurations", "-o", "name");
  assert.doesNotMatch(left, /switchback/);
  const pods = await cluster.kubectl("get", "pods", "-A", "-o", "yaml");
  assert.doesNotMatch(pods, new RegExp(HOST));
});
