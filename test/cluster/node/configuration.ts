import { copyFile, mkdir, symlink, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { stringify } from "yaml";
import { binary } from "../binaries.ts";
import { credentials } from "../control-plane-files.ts";
import { kubeconfigText } from "../kubeconfig.ts";
import type { BinaryName } from "../modules.ts";
import { createTestCa, type KeyPair, type TestCa } from "../pki.ts";
import { CALICO_KUBECONFIG, calicoPlugin, STATUS_FOLDER } from "./calico.ts";
import {
  ADDRESSES,
  ADMIN_KUBECONFIG,
  API_URL,
  CLUSTER_DOMAIN,
  type ClusterNode,
  CONTAINERD_SOCKET,
  NODE_HOSTS,
  NODES,
  POD_LOGS,
  STATE_FOLDER,
  statePath,
} from "./layout.ts";

/** Never pulled, because all images are imported. */
export const PAUSE_IMAGE = "switchback.test/pause:1";

const CNI_PLUGINS = ["bridge", "loopback", "host-local", "portmap"] as const satisfies readonly BinaryName[];
const CONTAINERD_BINARIES = ["containerd", "ctr", "containerd-shim-runc-v2"] as const satisfies readonly BinaryName[];

/**
 * Writes keys, kubeconfigs and configuration of the control plane and of each node into their state folders. With
 * `networkPolicies`, the configuration has the CNI plugin that Felix requires.
 */
export async function writeConfiguration(networkPolicies: boolean): Promise<void> {
  await mkdir(POD_LOGS, { recursive: true });
  if (networkPolicies) await mkdir(STATUS_FOLDER, { recursive: true });
  const ca = createTestCa("switchback-cluster-ca");
  await writeTexts(STATE_FOLDER, controlPlaneFiles(ca));
  for (const node of NODES) await writeNode(node, ca, networkPolicies);
}

async function writeTexts(folder: string, texts: Record<string, string>): Promise<void> {
  for (const [name, text] of Object.entries(texts)) await writeFile(join(folder, name), text, { mode: 0o600 });
}

async function writeNode(node: ClusterNode, ca: TestCa, networkPolicies: boolean): Promise<void> {
  const path = (...parts: string[]) => join(node.folder, ...parts);
  for (const folder of ["cni/conf", "cni/bin", "bin", "containerd"]) await mkdir(path(folder), { recursive: true });
  // Plugins and containerd's programs have one folder each, because both look for their helpers there.
  const plugins: BinaryName[] = networkPolicies ? [...CNI_PLUGINS, "calico"] : [...CNI_PLUGINS];
  for (const name of plugins) await copyFile(await binary(name), path("cni", "bin", name));
  for (const name of CONTAINERD_BINARIES) await symlink(await binary(name), path("bin", name));
  await writeTexts(node.folder, {
    "ca.crt": ca.cert,
    "kubelet.kubeconfig": kubeconfig(ca, ca.client(`system:node:${node.name}`, ["system:nodes"])),
    "proxy.kubeconfig": kubeconfig(ca, ca.client("system:kube-proxy", [])),
    "kubelet.yaml": stringify(kubeletConfiguration(node)),
    "containerd.toml": containerdConfiguration(),
    "cni/conf/10-pods.conflist": JSON.stringify(cniConfiguration(node, networkPolicies), null, 2),
    "resolv.conf": `nameserver ${ADDRESSES.publicDns}\n`,
  });
  await writeFile(path(basename(NODE_HOSTS)), "127.0.0.1\tlocalhost\n");
}

function kubeconfig(ca: TestCa, clientCert: KeyPair): string {
  return kubeconfigText(API_URL, ca.cert, { clientCert });
}

function controlPlaneFiles(ca: TestCa): Record<string, string> {
  const names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", ADDRESSES.apiService, ADDRESSES.node];
  const { adminToken, files } = credentials(ca, names, "admin");
  const toKubelet = ca.client("kube-apiserver", ["system:masters"]);
  return {
    ...files,
    "apiserver-kubelet.crt": toKubelet.cert,
    "apiserver-kubelet.key": toKubelet.key,
    [basename(ADMIN_KUBECONFIG)]: kubeconfigText(API_URL, ca.cert, { token: adminToken }),
    "controller-manager.kubeconfig": kubeconfig(ca, ca.client("system:kube-controller-manager", [])),
    "scheduler.kubeconfig": kubeconfig(ca, ca.client("system:kube-scheduler", [])),
    [basename(CALICO_KUBECONFIG)]: kubeconfig(ca, ca.client("calico", ["system:masters"])),
  };
}

function kubeletConfiguration({ families: [family] }: ClusterNode): object {
  const address = family?.node;
  return {
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true },
      x509: { clientCAFile: statePath("ca.crt") },
    },
    authorization: { mode: "Webhook" },
    clusterDNS: [ADDRESSES.dnsService],
    clusterDomain: CLUSTER_DOMAIN,
    containerRuntimeEndpoint: `unix://${CONTAINERD_SOCKET}`,
    resolvConf: statePath("resolv.conf"),
    podLogsDir: POD_LOGS,
    volumePluginDir: statePath("volume-plugins"),
    address,
    healthzBindAddress: address,
    maxPods: 110,
    // The values that work on a machine in a container, or without systemd.
    cgroupDriver: "cgroupfs",
    cgroupsPerQOS: false,
    enforceNodeAllocatable: [],
    failCgroupV1: false,
    failSwapOn: false,
    localStorageCapacityIsolation: false,
    // The limits are low: the cluster uses the machine's own disk, and deleted images could not be pulled again.
    evictionHard: { "nodefs.available": "1%", "imagefs.available": "1%", "memory.available": "50Mi" },
    imageGCHighThresholdPercent: 100,
    syncFrequency: "10s",
    // With serial pulls, pods start one at a time. That takes seconds if many start.
    serializeImagePulls: false,
    registerWithTaints: [],
  };
}

function containerdConfiguration(): string {
  return `version = 3
root = ${JSON.stringify(statePath("containerd", "root"))}
state = ${JSON.stringify(statePath("containerd", "state"))}
# Of the others, some write outside of these folders and some need what the machine may not have.
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.erofs",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp"]

[grpc]
address = ${JSON.stringify(CONTAINERD_SOCKET)}

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = ${JSON.stringify(PAUSE_IMAGE)}

[plugins.'io.containerd.cri.v1.runtime']
# Without CAP_SYS_RESOURCE a sandbox cannot have the negative score that the kubelet asks for.
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = [${JSON.stringify(statePath("cni", "bin"))}]
conf_dir = ${JSON.stringify(statePath("cni", "conf"))}

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
Root = ${JSON.stringify(statePath("containerd", "runc"))}
`;
}

function cniConfiguration({ families }: ClusterNode, networkPolicies: boolean): object {
  const ranges = families.map(({ podRange }) => [{ subnet: podRange }]);
  const ipam = { type: "host-local", dataDir: statePath("cni", "data"), ranges };
  const bridge = { type: "bridge", bridge: "pods", isDefaultGateway: true, hairpinMode: true, ipam };
  return {
    cniVersion: "1.0.0",
    name: "switchback-cluster",
    plugins: [networkPolicies ? calicoPlugin(ipam) : bridge, { type: "portmap", capabilities: { portMappings: true } }],
  };
}
