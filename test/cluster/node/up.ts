import { existsSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { binaries, binary } from "../binaries.ts";
import type { ImageSpec } from "../image.ts";
import { writeImage } from "../image.ts";
import { IMAGES, pauseImage, programImage } from "../images.ts";
import type { BinaryName } from "../modules.ts";
import { elapsed, type Progress } from "../progress.ts";
import { CALICO_BINARIES, CLUSTER_INFORMATION, calicoDefinitions, felixEnv } from "./calico.ts";
import { createDaemonGroup } from "./cgroup.ts";
import { apiServerArgs, controllerManagerArgs, etcdArgs, kubeProxyArgs, schedulerArgs } from "./components.ts";
import { writeConfiguration } from "./configuration.ts";
import { corednsObjects } from "./coredns.ts";
import { type Daemon, startDaemon, until } from "./daemons.ts";
import { down } from "./down.ts";
import { kubectl } from "./kubectl.ts";
import { startContainerd, startKubelet } from "./kubelet.ts";
import {
  type ClusterNode,
  CONTAINERD_SOCKET,
  daemonName,
  FIRST_NODE,
  FURTHER_NODES,
  NODES,
  STACK,
  STATE_FOLDER,
  type Stack,
  statePath,
  TEMPORARY_FILE,
  TWO_NODES,
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

/** Whether a complete cluster of an earlier `up` runs: its API server answers and its nodes are Ready. */
export async function isUp(): Promise<boolean> {
  if (!existsSync(UP_FILE)) return false;
  return await Promise.all(NODES.map(nodeReady)).then(
    (objections) => objections.every((objection) => objection === undefined),
    () => false,
  );
}

/** Whether a run of tests started the cluster of this machine, so that it ends after a run. */
export async function isTemporary(): Promise<boolean> {
  return existsSync(TEMPORARY_FILE);
}

/** Whether the cluster of this machine enforces NetworkPolicies. */
export async function enforcesNetworkPolicies(): Promise<boolean> {
  return (await upFile()).networkPolicies === true;
}

/** Whether the cluster of this machine has the families and the nodes of this run. */
export async function hasLayout(): Promise<boolean> {
  const { stack, nodes } = await upFile();
  return stack === STACK && nodes === NODES.length;
}

async function upFile(): Promise<{ networkPolicies?: boolean; stack?: Stack; nodes?: number }> {
  return JSON.parse(await readFile(UP_FILE, "utf8").catch(() => "{}"));
}

export interface UpOptions {
  /** The cluster ends with the run of tests that asked for it. */
  temporary?: boolean;
  /** Calico's Felix enforces NetworkPolicies. */
  networkPolicies?: boolean;
}

/**
 * Starts a cluster and waits until its node is Ready and cluster DNS runs. It first removes the remains of an earlier
 * cluster. A second node is Ready too, but cordoned, so that pods run on the first node unless something binds them
 * to the second.
 */
export async function up(progress: Progress, options: UpOptions = {}): Promise<void> {
  const { temporary = false, networkPolicies = false } = options;
  // Felix runs without IPv6 (calico.ts), so policies would not apply to pods' IPv6 traffic.
  if (networkPolicies && STACK !== "ipv4") throw new NotHere("--network-policies: works only on an IPv4-only cluster");
  if (TWO_NODES && (networkPolicies || STACK !== "ipv4")) {
    throw new NotHere("--nodes 2: works only on an IPv4-only cluster, and without --network-policies");
  }
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
  progress.say("network and configuration are ready; starting the control plane and containerd");
  const daemon = async (name: BinaryName, args: string[]): Promise<Daemon> =>
    startDaemon(name, await binary(name), args, { namespace: "node" });
  const etcd = await daemon("etcd", etcdArgs());
  const apiServer = await daemon("kube-apiserver", apiServerArgs());
  const containerd = await containerdAnswers(FIRST_NODE, progress);
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
  await kubectl(["apply", "-f", "-"], corednsObjects());
  await startNode(FIRST_NODE, containerd, ...felix);
  progress.say("the node is Ready; waiting for cluster DNS");
  await kubectl(["-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=90s"]);
  for (const node of FURTHER_NODES) {
    progress.say(`starting ${node.name}`);
    await startNode(node, await containerdAnswers(node, progress));
    await kubectl(["cordon", node.name]);
  }
  const since = new Date().toISOString();
  await writeFile(UP_FILE, JSON.stringify({ since, networkPolicies, stack: STACK, nodes: NODES.length }));
  progress.say(`the cluster is up, ${elapsed(performance.now() - started)} after the programs were there`);
}

/**
 * Must run before the kubelet starts. The plugin that creates pods' devices needs Calico's objects, and waits for
 * Felix.
 */
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

async function containerdAnswers(node: ClusterNode, progress: Progress): Promise<Daemon> {
  const containerd = await startContainerd(node);
  await until("containerd answers", 30, async () => void (await ctrOf(node, "version")), containerd);
  await importImages([await pauseImage(), await programImage(IMAGES.coredns, "coredns")], progress, [node]);
  return containerd;
}

async function startNode(node: ClusterNode, containerd: Daemon, ...others: Daemon[]): Promise<void> {
  const kubelet = await startKubelet(node, containerd);
  const { namespace } = node;
  startDaemon(daemonName("kube-proxy", node), await binary("kube-proxy"), kubeProxyArgs(node), { namespace });
  await until(`${node.name} is Ready`, 90, () => nodeReady(node), kubelet, ...others);
}

async function nodeReady({ name }: ClusterNode): Promise<string | undefined> {
  const ready = '.status.conditions[?(@.type=="Ready")]';
  const jsonpath = `jsonpath={${ready}.status} {${ready}.message}`;
  const text = await kubectl(["get", "node", name, "-o", jsonpath]);
  return text.startsWith("True ") ? undefined : text;
}

/** Runs containerd's client on the first node, in the containerd namespace of the kubelet's containers. */
export async function ctr(...args: string[]): Promise<string> {
  return await ctrOf(FIRST_NODE, ...args);
}

async function ctrOf({ folder }: ClusterNode, ...args: string[]): Promise<string> {
  const socket = join(folder, basename(CONTAINERD_SOCKET));
  return await run(await binary("ctr"), "--address", socket, "-n", "k8s.io", ...args);
}

/** Writes images and imports them into the nodes' containerd. */
export async function importImages(
  specs: readonly ImageSpec[],
  progress: Progress,
  nodes: readonly ClusterNode[] = NODES,
): Promise<void> {
  for (const spec of specs) {
    progress.status(`importing ${spec.name}`);
    const path = statePath("images", `${spec.name.replaceAll(/[/:]/g, "_")}.tar`);
    await writeImage(spec, path);
    for (const node of nodes) await ctrOf(node, "images", "import", path);
    await rm(path);
  }
}
