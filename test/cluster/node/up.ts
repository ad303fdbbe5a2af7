import { existsSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { binaries, binary } from "../binaries.ts";
import type { ImageSpec } from "../image.ts";
import { writeImage } from "../image.ts";
import { corednsImage, pauseImage } from "../images.ts";
import type { BinaryName } from "../modules.ts";
import { elapsed, type Progress } from "../progress.ts";
import { CALICO_BINARIES, CLUSTER_INFORMATION, calicoDefinitions, felixEnv } from "./calico.ts";
import { createDaemonGroup } from "./cgroup.ts";
import {
  apiServerArgs,
  containerdArgs,
  controllerManagerArgs,
  etcdArgs,
  kubeProxyArgs,
  schedulerArgs,
} from "./components.ts";
import { writeConfiguration } from "./configuration.ts";
import { corednsObjects } from "./coredns.ts";
import { type Daemon, startDaemon, until } from "./daemons.ts";
import { down } from "./down.ts";
import { kubectl } from "./kubectl.ts";
import { startKubelet } from "./kubelet.ts";
import {
  CONTAINERD_SOCKET,
  NODE_NAME,
  STACK,
  STATE_FOLDER,
  type Stack,
  statePath,
  TEMPORARY_FILE,
  UP_FILE,
} from "./layout.ts";
import { createNetwork } from "./network.ts";
import { NotHere, requireMachine } from "./requirements.ts";
import { run } from "./run.ts";

export const NODE_BINARIES = [
  "etcd",
  "kube-apiserver",
  "kube-controller-manager",
  "kube-scheduler",
  "kubelet",
  "kube-proxy",
  "kubectl",
  "helm",
  "containerd",
  "ctr",
  "containerd-shim-runc-v2",
  "bridge",
  "loopback",
  "host-local",
  "portmap",
  "coredns",
] as const satisfies readonly BinaryName[];

/** Whether a whole cluster of an earlier `up` runs: its API server answers and its node is Ready. */
export async function isUp(): Promise<boolean> {
  if (!existsSync(UP_FILE)) return false;
  return await nodeReady().then(
    (objection) => objection === undefined,
    () => false,
  );
}

/** Whether the cluster of this machine was brought up for a run of tests, and is to go after one. */
export async function isTemporary(): Promise<boolean> {
  return existsSync(TEMPORARY_FILE);
}

/** Whether the cluster of this machine enforces NetworkPolicies. */
export async function enforcesNetworkPolicies(): Promise<boolean> {
  return (await upFile()).networkPolicies === true;
}

/** Whether the cluster of this machine has the families of this run. */
export async function hasStack(): Promise<boolean> {
  return (await upFile()).stack === STACK;
}

async function upFile(): Promise<{ networkPolicies?: boolean; stack?: Stack }> {
  return JSON.parse(await readFile(UP_FILE, "utf8").catch(() => "{}")) as { networkPolicies?: boolean; stack?: Stack };
}

export interface UpOptions {
  /** It goes with the run of tests that asked for it. */
  temporary?: boolean;
  /** NetworkPolicies are enforced, by Calico's Felix. */
  networkPolicies?: boolean;
}

/** Brings a one-node cluster up to a Ready node with cluster DNS. Leftovers of an earlier one are removed first. */
export async function up(progress: Progress, options: UpOptions = {}): Promise<void> {
  const { temporary = false, networkPolicies = false } = options;
  // Felix runs without IPv6 (calico.ts), and pods would be open by it.
  if (networkPolicies && STACK !== "ipv4") throw new NotHere("--network-policies: takes a cluster with IPv4 alone");
  await requireMachine(progress, networkPolicies);
  await binaries(networkPolicies ? [...NODE_BINARIES, ...CALICO_BINARIES] : NODE_BINARIES);
  const started = performance.now();
  if (existsSync(STATE_FOLDER)) progress.say("removing what is left of an earlier cluster");
  await down();
  await mkdir(statePath("home"), { recursive: true, mode: 0o700 });
  if (temporary) await writeFile(TEMPORARY_FILE, "");
  await createDaemonGroup();
  await createNetwork();
  await writeConfiguration(networkPolicies);
  progress.say("network and configuration are there; starting the control plane and containerd");
  const daemon = async (name: BinaryName, args: string[], env?: Record<string, string>): Promise<Daemon> =>
    startDaemon(name, await binary(name), args, { namespace: "node", ...(env && { env }) });
  const etcd = await daemon("etcd", etcdArgs());
  const apiServer = await daemon("kube-apiserver", apiServerArgs());
  const containerd = await daemon("containerd", containerdArgs(), {
    PATH: `${statePath("bin")}:${process.env.PATH}`,
  });
  await until("containerd answers", 30, async () => void (await ctr("version")), containerd);
  await importImages([await pauseImage(), await corednsImage()], progress);
  await until(
    "the API server is ready",
    60,
    async () => void (await kubectl(["get", "--raw", "/readyz"])),
    etcd,
    apiServer,
  );
  progress.say("the API server is ready; starting the other components");
  const felix = networkPolicies ? [await startFelix()] : [];
  await daemon("kube-controller-manager", controllerManagerArgs());
  await daemon("kube-scheduler", schedulerArgs());
  const kubelet = await startKubelet();
  await daemon("kube-proxy", kubeProxyArgs());
  await kubectl(["apply", "-f", "-"], corednsObjects());
  await until("the node is Ready", 90, nodeReady, kubelet, ...felix);
  progress.say("the node is Ready; waiting for cluster DNS");
  await kubectl(["-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=90s"]);
  await writeFile(UP_FILE, JSON.stringify({ since: new Date().toISOString(), networkPolicies, stack: STACK }));
  progress.say(`the cluster is up, ${elapsed(performance.now() - started)} after the programs were there`);
}

/** Before the kubelet: pods' devices are made by a plugin that finds Calico's objects and waits for Felix. */
async function startFelix(): Promise<Daemon> {
  await kubectl(["apply", "--server-side", "-f", "-"], await calicoDefinitions());
  await kubectl([
    "wait",
    "--for=condition=Established",
    "--timeout=30s",
    "crd",
    "clusterinformations.crd.projectcalico.org",
  ]);
  await kubectl(["apply", "-f", "-"], CLUSTER_INFORMATION);
  return startDaemon("calico-felix", await binary("calico-felix"), [], { namespace: "node", env: felixEnv() });
}

async function nodeReady(): Promise<string | undefined> {
  const ready = '.status.conditions[?(@.type=="Ready")]';
  const jsonpath = `jsonpath={${ready}.status} {${ready}.message}`;
  const text = await kubectl(["get", "node", NODE_NAME, "-o", jsonpath]);
  return text.startsWith("True ") ? undefined : text;
}

/** containerd's own client, in the namespace of the kubelet's containers. */
export async function ctr(...args: string[]): Promise<string> {
  return await run(await binary("ctr"), "--address", CONTAINERD_SOCKET, "-n", "k8s.io", ...args);
}

/** Writes images and hands them to containerd. */
export async function importImages(specs: readonly ImageSpec[], progress: Progress): Promise<void> {
  for (const spec of specs) {
    progress.status(`importing ${spec.name}`);
    const path = statePath("images", `${spec.name.replaceAll(/[/:]/g, "_")}.tar`);
    await writeImage(spec, path);
    await ctr("images", "import", path);
    await rm(path);
  }
}
