import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import { type BinaryName, releaseOf } from "../modules.ts";
import { moduleFolder } from "../releases.ts";
import { NODE_NAME, statePath } from "./layout.ts";

// Programs that enforce NetworkPolicies: Calico's Felix beside kube-proxy, and Calico's CNI plugin instead of the
// bridge. Felix filters per pod device. Behind a bridge, it would not see which pod a packet comes from.

const HEALTH_PORT = 9099;
/** The plugin makes this address the gateway of every pod. No device has it. */
export const GATEWAY = "169.254.1.1";
/** Felix writes the MTU of pods to this file. The path is fixed. */
export const MTU_FILE = "/var/lib/calico/mtu";
/** Felix writes a file here for each pod whose rules are in force; the CNI plugin waits for it. */
export const STATUS_FOLDER = statePath("felix");
/**
 * Time that the plugin waits for a pod's rules. A machine under load needs less. After it, a pod would start without
 * its rules in force, and at first reach nothing.
 */
const RULES_TIMEOUT_SECONDS = 30;

export const CALICO_BINARIES = ["calico-felix", "calico"] as const satisfies readonly BinaryName[];
export const CALICO_KUBECONFIG = statePath("calico.kubeconfig");

/**
 * Felix takes its settings from the environment. It writes its iptables rules through nftables, separate from
 * kube-proxy's rules.
 */
export function felixEnv(): Record<string, string> {
  const settings = {
    datastoretype: "kubernetes",
    felixhostname: NODE_NAME,
    iptablesbackend: "nft",
    ipv6support: "false",
    // With this setting, a pod's policies decide what it may reach on the node, including the API server. Calico's
    // default is that a pod reaches nothing on the node.
    defaultendpointtohostaction: "Accept",
    endpointstatuspathprefix: STATUS_FOLDER,
    healthenabled: "true",
    healthhost: "127.0.0.1",
    healthport: String(HEALTH_PORT),
    // The node's device. Felix sets the MTU of pods according to this device.
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
  return await readFile(join(await moduleFolder(releaseOf("calico")), "manifests", "crds.yaml"), "utf8");
}

/** This object says that Calico's objects exist. Felix and the plugin wait for it. */
export const CLUSTER_INFORMATION = stringify({
  apiVersion: "crd.projectcalico.org/v1",
  kind: "ClusterInformation",
  metadata: { name: "default" },
  spec: { clusterType: "k8s", datastoreReady: true },
});

/** The plugin that creates a pod's device, with addresses from `ipam`. */
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
