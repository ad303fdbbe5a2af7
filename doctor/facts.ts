import type { Config } from "../config/schema.ts";
import type { PublishedMap, Reason } from "../hostmap/types.ts";
import type { MapIndex } from "../snapshot/map-format.ts";
import type { PublishedTarget } from "../snapshot/targets-format.ts";
import type { NamespaceFacts } from "../workloads/namespaces.ts";
import type { Known } from "./known.ts";
import type { ProbeResult } from "./probe/result.ts";

// Everything that the checks judge. Whatever could not be read says so and why; no fact is ever assumed.

/** The ConfigMap of the install's configuration, as the chart names it. */
export const CONFIG_NAME = "switchback-config";

export interface ObjectName {
  readonly namespace: string;
  readonly name: string;
}

export interface ServicePort {
  readonly name: string;
  readonly port: number;
  readonly targetPort: string;
  readonly appProtocol: string;
}

/** One entry of a Service's load balancer status. */
export interface BalancerEntry {
  readonly ip?: string;
  readonly hostname?: string;
  /** Kubernetes fills in `VIP` where a provider says nothing (KEP-1860). */
  readonly ipMode?: string;
}

export interface ServiceFacts extends ObjectName {
  readonly type: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly selector: Readonly<Record<string, string>>;
  readonly clusterIPs: readonly string[];
  /** TCP ports. */
  readonly ports: readonly ServicePort[];
  readonly entries: readonly BalancerEntry[];
}

/** An Ingress or a Gateway. */
export interface RouteFacts extends ObjectName {
  readonly kind: "Ingress" | "Gateway";
  /** IP addresses and host names of its status. */
  readonly addresses: readonly string[];
  readonly hosts: readonly string[];
  readonly className: string | undefined;
}

export interface DeploymentFacts {
  readonly name: string;
  readonly desired: number;
  readonly ready: number;
  readonly image: string;
  readonly pullPolicy: string;
}

export interface WebhookEntry {
  readonly name: string;
  readonly failurePolicy: string;
  readonly timeoutSeconds: number;
  /** PEM text; "" where there is none. */
  readonly caBundle: string;
  readonly service: (ObjectName & { readonly port: number }) | undefined;
  /** Namespaces that its namespaceSelector leaves out by name. */
  readonly excludedNamespaces: readonly string[];
}

/** What came of asking the API server to create an opted-in pod without creating it. */
export type DryRun =
  | { readonly outcome: "injected" }
  /** Let in as it was, without our annotations. */
  | { readonly outcome: "untouched" }
  /** Refused because of our webhook. */
  | { readonly outcome: "blocked"; readonly text: string }
  /** Refused by somebody else, so that it tells nothing about us. */
  | { readonly outcome: "refused"; readonly text: string };

export interface PodInfo extends ObjectName {
  /** `namespace/Kind/name` of what would have to be made anew for it, as the leader calls it. */
  readonly owner: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly node: string;
  /** Addresses of its hostAliases. */
  readonly aliasAddresses: readonly string[];
}

/** A node's agent, by its Lease. */
export interface AgentInfo {
  /** Name of the Lease (snapshot/agent-lease-format.ts). */
  readonly lease: string;
  /** The map's revision that it has applied; undefined: none yet, or not known. */
  readonly mapRevision: string | undefined;
  /** Milliseconds since it was renewed, by our clock. */
  readonly silentMs: number;
}

/** How many endpoints of a Service are ready. */
export interface EndpointFacts extends ObjectName {
  readonly ready: number;
}

/** The published map, with its index. */
export interface MapFacts {
  readonly index: MapIndex;
  /** A reason: its parts do not fit together. */
  readonly map: PublishedMap | Reason;
}

/** What of the controller's /status is judged; it may be another version's. */
export interface StatusFacts {
  /** Whether the replica that answered leads; what is held back and how pods follow is the leader's to know. */
  readonly leader: boolean;
  readonly synced: boolean;
  readonly sources: readonly { readonly name: string; readonly synced: boolean }[];
  readonly hold?: { readonly names: number; readonly of: number; readonly until: number } | undefined;
  readonly warnings: readonly Reason[];
  readonly targets: readonly {
    readonly name: string;
    readonly relayed: boolean;
    /** `namespace/name` of a Service, or a host. */
    readonly upstream: string;
    readonly ports: readonly { readonly port: number }[];
  }[];
  readonly names: readonly { readonly name: string; readonly reason?: Reason | undefined }[];
  readonly running?: { readonly workloads: readonly WorkloadInfo[] } | undefined;
}

/** An owner of opted-in pods, as the leader judges it (controller/rollout/rollout-status.ts). */
export interface WorkloadInfo extends ObjectName, Reason {
  readonly kind: string;
  readonly stale: number;
  /** `stuck`: it stays behind until somebody does something. */
  readonly standing: string;
  /** How its pods follow the map, and whose word that is: `workload` where it is an annotation of its own. */
  readonly mode?: string | undefined;
  readonly modeFrom?: string | undefined;
}

/** What is there of Switchback itself. */
export interface InstallFacts {
  /** Undefined: there is none. */
  readonly config: Known<Config | undefined>;
  /** What the proxies were told to relay; undefined: nothing yet. */
  readonly targets: Known<readonly PublishedTarget[] | undefined>;
  readonly deployments: Known<readonly DeploymentFacts[]>;
  readonly map: Known<MapFacts | undefined>;
  /** The controller's own account. */
  readonly status: Known<StatusFacts>;
  /** The text of a proxy replica's /readyz. */
  readonly proxyReadyz: Known<string>;
}

export interface AdmissionFacts {
  /** Undefined: there is no such configuration. */
  readonly configuration: Known<readonly WebhookEntry[] | undefined>;
  /** The certificate in the webhook's Secret, PEM; undefined: there is no such Secret. Its key is dropped unread. */
  readonly servingCertificate: Known<string | undefined>;
  readonly dryRun: Known<DryRun>;
}

export interface ClusterFacts {
  /** Our own namespace, as asked for. */
  readonly namespace: string;
  /** Where the dry run and the probe pod are made. */
  readonly probeNamespace: string;
  readonly services: Known<readonly ServiceFacts[]>;
  readonly ingresses: Known<readonly RouteFacts[]>;
  readonly gateways: Known<readonly RouteFacts[]>;
  /** By name. */
  readonly namespaces: Known<ReadonlyMap<string, NamespaceFacts>>;
  /** `spec.providerID` of some nodes. */
  readonly providerIds: Known<readonly string[]>;
  readonly install: InstallFacts;
  /** Of the Services behind targets. */
  readonly endpoints: Known<readonly EndpointFacts[]>;
  readonly admission: AdmissionFacts;
  /** Pods that opted in themselves, are in a namespace that did, or carry an annotation of ours; finished ones left out. */
  readonly pods: Known<readonly PodInfo[]>;
  /** The agents that keep pods of mode `live` current; undefined: there is no such pod. */
  readonly agents: Known<readonly AgentInfo[]> | undefined;
  /** Undefined: nobody asked for a probe. */
  readonly probe: Known<ProbeResult> | undefined;
}

/** `namespace/name`. */
export function objectKey({ namespace, name }: ObjectName): string {
  return `${namespace}/${name}`;
}
