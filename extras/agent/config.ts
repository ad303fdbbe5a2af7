import * as v from "valibot";
import { type Section, settingsOf } from "#lib/config/sections.ts";
import { bindPort, glob, label, section, setting } from "#lib/config/values.ts";
import { strictObject } from "#lib/errors/schemas.ts";

/**
 * Maximum number of names: with 253 characters each, their joined text is still read (lib/hostmap/pod-selection.ts).
 */
const MAX_NODE_HOSTS_ITEMS = 64;

const absolutePath = v.pipe(
  v.string(),
  v.regex(/^(\/[A-Za-z0-9._-]+)+$/, "must be an absolute path without a trailing slash"),
  v.check((path) => !path.split("/").some((part) => part === "." || part === ".."), "must not contain `.` or `..`"),
);

const AGENT_NAMESPACE = "switchback-agent";
/** How often an agent renews its node's Lease, in milliseconds. A thousand agents then send 33 requests a second. */
export const RENEW_MS = 30_000;
/** Where the chart mounts the node's hosts file in the agent's pod. */
export const NODE_HOSTS_PATH = "/run/switchback-node/hosts";

const agentSchema = strictObject({
  enabled: setting(v.boolean(), false, "Whether agents run, so that the controller follows them; set by the chart."),
  namespace: setting(
    label,
    AGENT_NAMESPACE,
    "Namespace of the agents and their Leases. It is separate because the agents need hostPath volumes. " +
      "Change it if the name is taken.",
  ),
  kubeletRoot: setting(
    absolutePath,
    "/var/lib/kubelet",
    "The kubelet's root directory (--root-dir); the hosts files are in its `pods` directory. " +
      "Set it if your nodes have another one.",
  ),
  confine: setting(
    v.boolean(),
    true,
    "In a pod, give up rights by Landlock, where the kernel has it: the agent can then change hosts files but " +
      "create, remove or execute nothing on the node. Disable it only to find out whether it is in the way.",
  ),
  healthPort: setting(bindPort, 8083, "Health and metrics. Change it if a policy of your cluster reserves the port."),
});

/** Names in the hosts files of the nodes. */
const nodeHostsSchema = strictObject({
  names: setting(
    v.pipe(v.array(glob), v.maxLength(MAX_NODE_HOSTS_ITEMS)),
    [],
    "Mapped names that the agents write into /etc/hosts of their nodes. Pods on the host's network inherit them from " +
      "there, opted in or not. Set them for the kubelet, or for pods with hostNetwork.",
  ),
  remove: setting(
    v.boolean(),
    false,
    "Mount the file even without `names`. Agents can then remove old names from nodes that were away when you " +
      "removed the names from the configuration.",
  ),
  hostPath: setting(
    absolutePath,
    "/etc/hosts",
    "The file on the node, which the chart mounts. Set it if your nodes have it elsewhere.",
  ),
});

const agent = section(agentSchema);
const nodeHosts = section(nodeHostsSchema);

export const AGENT_SECTION: Section<typeof agent> = { name: "agent", schema: agent };
const NODE_HOSTS: Section<typeof nodeHosts> = { name: "nodeHosts", schema: nodeHosts };

/** The sections of the configuration. */
export const AGENT_SECTIONS: readonly Section[] = [AGENT_SECTION, NODE_HOSTS];

export type AgentSettings = v.InferOutput<typeof agentSchema>;

/** Returns the settings of a configuration that was parsed with these sections, else the defaults. */
export function agentSettings(config: object): AgentSettings {
  return settingsOf(config, AGENT_SECTION);
}

export function nodeHostsSettings(config: object): v.InferOutput<typeof nodeHostsSchema> {
  return settingsOf(config, NODE_HOSTS);
}
