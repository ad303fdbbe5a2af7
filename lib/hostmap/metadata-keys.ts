/** Every Switchback label and annotation. Docs, manifests and the validation of users' files follow this table. */
export const PREFIX = "switchback.dev/";

/** Pod or namespace label that opts in (`enabled`) or out (`disabled`). The pod's label takes precedence. */
export const INJECT_KEY = "switchback.dev/inject";
/** Pod or namespace label: how a new pod gets the names, `hosts` or `dns`. */
export const VIA_KEY = "switchback.dev/via";
/** Pod annotation: the names and patterns to map in the pod. */
export const HOSTS_KEY = "switchback.dev/hosts";
/** Namespace, workload or pod annotation: how running pods follow changes. */
export const ON_CHANGE_KEY = "switchback.dev/on-change";
/** Annotation of an Ingress, Route or Gateway whose names are never mapped. */
export const IGNORE_KEY = "switchback.dev/ignore";
/**
 * Written on the pod. The annotation is a readable summary of the mapped names. The label `true` lets the API server
 * select pods that the webhook has seen. Anybody may remove it, so no decision depends on it: it only makes watching
 * cheap.
 */
export const INJECTED_KEY = "switchback.dev/injected";
/** Written on the pod: `SelectedHosts.revision`, so that metadata alone shows whether a pod is outdated. */
export const REVISION_KEY = "switchback.dev/revision";
/** Written on the pod: identifies its managed hostAliases. */
export const OWNED_KEY = "switchback.dev/owned";
/**
 * Written on a pod that resolves through pod DNS: the nameservers of its dnsConfig. They mark the dnsConfig as ours.
 */
export const RESOLVERS_KEY = "switchback.dev/resolvers";
/**
 * Annotation of a load balancer's Service, set by its admin: the PROXY protocol version that the load balancer sends.
 */
export const PROXY_PROTOCOL_KEY = "switchback.dev/proxy-protocol";
/**
 * Written on a workload's pod template to restart it: the time, like kubectl's restartedAt. The new pods have it too.
 */
export const RESTARTED_KEY = "switchback.dev/restartedAt";
/**
 * Written on a workload that the controller restarts: the times of its restarts in the last 24 hours, and namespaces
 * whose names caused them, as JSON.
 */
export const RESTARTS_KEY = "switchback.dev/restarts";
/** Annotation of a namespace, set by the cluster admin: the domains that its objects may claim. */
export const DOMAINS_KEY = "switchback.dev/domains";
/**
 * Annotation of a load balancer's Service, set by its admin. It says when the names that lead to the load balancer are
 * mapped.
 */
export const MAP_KEY = "switchback.dev/map";
/**
 * Label of the front Services: the target's name. Also an annotation of an Ingress, Gateway or route: the target for
 * its names.
 */
export const TARGET_KEY = "switchback.dev/target";
/** Written on the map: the version of its format, a hash of its text, and the time of the publication (RFC 3339). */
export const MAP_VERSION_KEY = "switchback.dev/map-version";
export const MAP_REVISION_KEY = "switchback.dev/map-revision";
export const MAP_TIME_KEY = "switchback.dev/published";
/** Written on the map: the current removal hold, as JSON. */
export const HOLD_KEY = "switchback.dev/hold";
/** Written on the map for ten minutes: the time when it was lost (RFC 3339). */
export const MAP_LOST_KEY = "switchback.dev/map-lost";

interface UserKey {
  readonly on: "label" | "annotation";
  /** Accepted values. If missing, any value that parses. */
  readonly values?: readonly string[];
}

/** The keys that users may set on their objects. */
export const USER_KEYS: Readonly<Record<string, UserKey>> = {
  [INJECT_KEY]: { on: "label", values: ["enabled", "disabled"] },
  [VIA_KEY]: { on: "label", values: ["hosts", "dns"] },
  [HOSTS_KEY]: { on: "annotation" },
  [ON_CHANGE_KEY]: { on: "annotation", values: ["restart", "live", "none"] },
  [IGNORE_KEY]: { on: "annotation", values: ["true", "false"] },
  [DOMAINS_KEY]: { on: "annotation" },
  [PROXY_PROTOCOL_KEY]: { on: "annotation", values: ["v1", "v2", "none"] },
  [MAP_KEY]: { on: "annotation", values: ["auto", "always"] },
  [TARGET_KEY]: { on: "annotation" },
};
