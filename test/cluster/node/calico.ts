import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import type { BinaryName } from "../modules.ts";
import { NODE_NAME, statePath } from "./layout.ts";
import { run } from "./run.ts";

// What enforces NetworkPolicies: Calico's Felix beside kube-proxy, and Calico's CNI plugin in place of the bridge.
// Felix filters per pod device, and behind a bridge it would not see which pod a packet is from.

const MODULE = join(import.meta.dirname, "..", "modules", "calico");
const HEALTH_PORT = 9099;
/** The plugin makes it the gateway of every pod; nobody has it. */
export const GATEWAY = "169.254.1.1";
/** Felix writes the MTU of pods there; the path is fixed. */
export const MTU_FILE = "/var/lib/calico/mtu";
/** Felix writes a file here for each pod whose rules are in force; the CNI plugin waits for it. */
export const STATUS_FOLDER = statePath("felix");
/**
 * More than a machine under load takes. After it a pod would start before its rules are in force, and reach nothing
 * at first.
 */
const RULES_TIMEOUT_SECONDS = 30;

export const CALICO_BINARIES = ["calico-felix", "calico"] as const satisfies readonly BinaryName[];
export const CALICO_KUBECONFIG = statePath("calico.kubeconfig");

/**
 * Felix takes its settings from the environment. It writes rules for iptables into nftables, apart from those of
 * kube-proxy.
 */
export function felixEnv(): Record<string, string> {
  const settings = {
    datastoretype: "kubernetes",
    felixhostname: NODE_NAME,
    iptablesbackend: "nft",
    ipv6support: "false",
    // A pod's policies decide what it may reach of the node, the API server included. Calico's default is that it
    // reaches nothing.
    defaultendpointtohostaction: "Accept",
    endpointstatuspathprefix: STATUS_FOLDER,
    healthenabled: "true",
    healthhost: "127.0.0.1",
    healthport: String(HEALTH_PORT),
    // The node's device, by whose MTU Felix sets the pods'.
    mtuifacepattern: "lan",
    logfilepath: "none",
    logseverityscreen: "Warning",
    logseveritysys: "none",
    usagereportingenabled: "false",
  };
  const felix = Object.entries(settings).map(([name, value]) => [`FELIX_${name.toUpperCase()}`, value]);
  return { ...Object.fromEntries(felix), KUBECONFIG: CALICO_KUBECONFIG, PATH: process.env.PATH ?? "" };
}

/** The definitions of Calico's kinds, from its module. */
export async function calicoDefinitions(): Promise<string> {
  const answer = await run("go", "-C", MODULE, "mod", "download", "-json", "github.com/projectcalico/calico");
  const { Dir: folder } = JSON.parse(answer) as { Dir: string };
  return await readFile(join(folder, "manifests", "crds.yaml"), "utf8");
}

/** Neither Felix nor the plugin begins before it says that Calico's objects are there. */
export const CLUSTER_INFORMATION = stringify({
  apiVersion: "crd.projectcalico.org/v1",
  kind: "ClusterInformation",
  metadata: { name: "default" },
  spec: { clusterType: "k8s", datastoreReady: true },
});

/** The plugin that makes a pod's device, with addresses from `ipam`. */
export function calicoPlugin(ipam: object): object {
  return {
    type: "calico",
    datastore_type: "kubernetes",
    kubernetes: { kubeconfig: CALICO_KUBECONFIG },
    nodename: NODE_NAME,
    nodename_file_optional: true,
    policy: { type: "k8s" },
    ipam,
    mtu: 1500,
    log_level: "Warning",
    log_file_path: statePath("logs", "calico-cni.log"),
    readiness_gates: [`http://127.0.0.1:${HEALTH_PORT}/readiness`],
    policy_setup_timeout_seconds: RULES_TIMEOUT_SECONDS,
    endpoint_status_dir: join(STATUS_FOLDER, "endpoint-status"),
  };
}
