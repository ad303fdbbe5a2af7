import * as v from "valibot";
import { type Section, settingsOf } from "#lib/config/sections.ts";
import { bindPort, glob, label, optionalSetting, secondsFrom, section, setting } from "#lib/config/values.ts";
import { strictObject, text } from "#lib/errors/schemas.ts";

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

const agentSchema = strictObject({
  enabled: setting(v.boolean(), false, "Whether agents run, so that the controller follows them; set by the chart."),
  namespace: setting(
    label,
    AGENT_NAMESPACE,
    "Namespace of the agents and their Leases. It is separate because the agents need hostPath volumes.",
  ),
  node: optionalSetting(text, "The node whose pods this agent updates. In the chart, SWITCHBACK_AGENT_NODE."),
  kubeletRoot: setting(
    absolutePath,
    "/var/lib/kubelet",
    "The kubelet's root directory (--root-dir); the hosts files are in its `pods` directory.",
  ),
  confine: setting(
    v.boolean(),
    true,
    "In a pod, give up rights by Landlock, where the kernel has it: the agent can then change hosts files but " +
      "create, remove or execute nothing on the node.",
  ),
  address: setting(v.string(), "::", "Address that the port binds."),
  healthPort: setting(bindPort, 8083, "Health and metrics."),
  sweepSeconds: setting(secondsFrom(1), 30, "How often every hosts file is checked, even without an event."),
  renewSeconds: setting(secondsFrom(1), 30, "How often the node's Lease is renewed."),
});

/** Names in the hosts files of the nodes. */
const nodeHostsSchema = strictObject({
  names: setting(
    v.pipe(v.array(glob), v.maxLength(MAX_NODE_HOSTS_ITEMS)),
    [],
    "Mapped names that the agents write into /etc/hosts of their nodes. Pods on the host's network inherit them from " +
      "there, opted in or not.",
  ),
  remove: setting(
    v.boolean(),
    false,
    "Mount the file even without `names`. Agents can then remove old names from nodes that were away when you " +
      "removed the names from the configuration.",
  ),
  hostPath: setting(absolutePath, "/etc/hosts", "The file on the node, which the chart mounts."),
  path: setting(absolutePath, "/run/switchback-node/hosts", "Where the agent finds that file in its pod."),
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

/** Returns the configuration of the agent on this node, which the chart sets by the downward API. */
export function configOfNode<C extends object>(config: C, env: Readonly<Record<string, string | undefined>>): C {
  const node = env.SWITCHBACK_AGENT_NODE;
  return node === undefined ? config : { ...config, agent: { ...agentSettings(config), node } };
}

export function nodeHostsSettings(config: object): v.InferOutput<typeof nodeHostsSchema> {
  return settingsOf(config, NODE_HOSTS);
}
