/** Every label and annotation of ours, in one place; docs, manifests and checks of users' files follow this table. */
export const PREFIX = "switchback.dev/";

/** Pod or namespace label that opts in (`enabled`) or, on a pod, out (`disabled`). */
export const INJECT_KEY = "switchback.dev/inject";
/** Pod annotation: the names and patterns a pod wants. */
export const HOSTS_KEY = "switchback.dev/hosts";
/** Namespace, workload or pod annotation: how running pods follow changes. */
export const ON_CHANGE_KEY = "switchback.dev/on-change";
/** Ingress, Route or Gateway annotation: its names are never mapped. */
export const IGNORE_KEY = "switchback.dev/ignore";
/** Written on the pod for people: what was mapped. */
export const INJECTED_KEY = "switchback.dev/injected";
/** Written on the pod: `Chosen.revision`, from which drift is told by metadata alone. */
export const REVISION_KEY = "switchback.dev/revision";
/** Written on the pod: which of its hostAliases are ours. */
export const OWNED_KEY = "switchback.dev/owned";
/** Annotation of a load balancer's Service, for its admin: the PROXY protocol version that the load balancer sends. */
export const PROXY_PROTOCOL_KEY = "switchback.dev/proxy-protocol";
/** Written on the pod template of a workload that is restarted, as kubectl writes a key of its own: when. Its new pods carry it too. */
export const RESTARTED_KEY = "switchback.dev/restartedAt";
/** Annotation of a namespace, for the cluster's admin: the domains that its objects may claim. */
export const DOMAINS_KEY = "switchback.dev/domains";
/** Label of the ConfigMaps that hold the map. */
export const MAP_KEY = "switchback.dev/map";
/** Label of the front Services: the target's name. */
export const TARGET_KEY = "switchback.dev/target";
/** Written on the index: a held removal, JSON. */
export const HOLD_KEY = "switchback.dev/hold";
/** Written on the index by `switchback confirm`: the id of the hold that may happen. */
export const CONFIRM_KEY = "switchback.dev/confirm";

/** Written on an agent's Lease, beside the revision: which pods cannot follow the map, `namespace/name: code, ...`. For people. */
export const PROBLEM_KEY = "switchback.dev/problem";
/** Written on the agent's DaemonSet by whoever removes Switchback: the agents take their blocks out, and delete their Leases when that is done. */
export const LEAVING_KEY = "switchback.dev/leaving";

interface UserKey {
  readonly on: "label" | "annotation";
  /** Accepted values; absent: any that parses. */
  readonly values?: readonly string[];
}

/** What people may write on their objects. */
export const USER_KEYS: Readonly<Record<string, UserKey>> = {
  [INJECT_KEY]: { on: "label", values: ["enabled", "disabled"] },
  [HOSTS_KEY]: { on: "annotation" },
  [ON_CHANGE_KEY]: { on: "annotation", values: ["restart", "live", "none"] },
  [IGNORE_KEY]: { on: "annotation", values: ["true", "false"] },
  [DOMAINS_KEY]: { on: "annotation" },
  [PROXY_PROTOCOL_KEY]: { on: "annotation", values: ["v1", "v2", "none"] },
};

/** What Switchback itself writes on pods; found in a file it is an old output of `switchback inject`, and replaced. */
export const WRITTEN_KEYS: readonly string[] = [INJECTED_KEY, REVISION_KEY, OWNED_KEY];
