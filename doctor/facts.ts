import type { UpdaterState } from "#controller/rollout/pod-updater.ts";
import type { PublishedMap, Reason, TargetAddress } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import type { NamespaceFacts } from "#lib/workloads/namespaces.ts";
import type { Fact } from "./fact.ts";
import type { Finding } from "./findings.ts";
import type { ProbeResult } from "./probe/result.ts";

// The input of the checks. A fact that could not be read carries the reason; no fact is guessed.

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
export interface LoadBalancerIngress {
  readonly ip?: string;
  readonly hostname?: string;
  /** Kubernetes defaults it to `VIP` if the provider does not set it (KEP-1860). */
  readonly ipMode?: string;
  /** Whether it is one of the Service's `externalIPs`. */
  readonly external?: true;
}

export interface ServiceFacts extends ObjectName {
  readonly type: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly selector: Readonly<Record<string, string>>;
  readonly clusterIPs: readonly string[];
  /** TCP ports. */
  readonly ports: readonly ServicePort[];
  /** The entries of its load balancer status, and its `externalIPs`. */
  readonly entries: readonly LoadBalancerIngress[];
  /** Its `loadBalancerSourceRanges`. */
  readonly sourceRanges: readonly string[];
  /** The types of the conditions in its status. */
  readonly conditions: readonly string[];
}

/** An Ingress or a Gateway. */
export interface RouteFacts extends ObjectName {
  readonly kind: "Ingress" | "Gateway";
  /** IP addresses and hostnames in its status. */
  readonly addresses: readonly string[];
  readonly hosts: readonly string[];
  readonly className: string | undefined;
}

/** An HTTP-01 solver of a cert-manager issuer. */
export interface HttpSolverFacts {
  /** Kind and name of the issuer. */
  readonly issuer: string;
  /** Whether cert-manager waits instead of calling the name itself (`waitInsteadOfSelfCheck`). */
  readonly waits: boolean;
}

/** The callers in the cluster that the ingress controller's log shows. */
export interface CallerFacts {
  /** `namespace/Kind/name` with the number of its calls, most calls first. */
  readonly workloads: readonly { readonly owner: string; readonly calls: number }[];
  /** Calls from the cluster that were refused because they had no PROXY header. */
  readonly refused: number;
  /** Refused calls from a node's address. kube-proxy may have replaced the pod's address with it. */
  readonly masqueraded: number;
  /** Calls from the cluster for an HTTP-01 challenge, such as cert-manager's self-check. */
  readonly selfChecks: number;
  /** Number of all calls in the log. */
  readonly total: number;
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
  /** PEM text; "" if missing. */
  readonly caBundle: string;
  readonly service: (ObjectName & { readonly port: number }) | undefined;
  /** Namespaces that its namespaceSelector excludes by name. */
  readonly excludedNamespaces: readonly string[];
  /** Namespaces that it selects by name. */
  readonly listedNamespaces: readonly string[];
}

/** The result of creating an opted-in pod as a dry run. */
export type DryRun =
  | { readonly outcome: "injected" }
  /** Admitted unchanged, without Switchback's annotations. */
  | { readonly outcome: "untouched" }
  /** Rejected because of Switchback's webhook. */
  | { readonly outcome: "blocked"; readonly text: string }
  /** Rejected for another reason, which says nothing about Switchback. */
  | { readonly outcome: "refused"; readonly text: string };

export interface PodInfo extends ObjectName {
  /** `namespace/Kind/name` of the workload to restart for this pod, as in the leader's status. */
  readonly owner: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly node: string;
  /** Addresses of its hostAliases. */
  readonly aliasAddresses: readonly string[];
  /** Names in the hostAliases of its own manifest; absent if it has none. */
  readonly ownNames?: readonly string[];
}

/** The updaters, which update running pods. Each node has at most one. */
export interface NodeUpdaters {
  readonly all: readonly UpdaterInfo[];
  /** The updater of a node; undefined if the node has none. */
  of(node: string): UpdaterState | undefined;
}

export interface UpdaterInfo {
  readonly name: string;
  /** The revision of the map that every pod of the node has. */
  readonly mapRevision: string | undefined;
  /** Milliseconds since its last report, by the local clock. */
  readonly silentMs: number;
  /** Whether it was silent for no longer than the configuration allows (`pods.agentSilenceSeconds`). */
  readonly alive: boolean;
}

/** How many endpoints of a Service are ready. */
export interface EndpointFacts extends ObjectName {
  readonly ready: number;
}

/** The published map, with the addresses of the targets. */
export interface MapFacts {
  readonly targets: readonly TargetAddress[];
  /** A reason instead of the map if it cannot be read. */
  readonly map: PublishedMap | Reason;
}

/** The part of the controller's /status that the checks use. The controller may have another version. */
export interface StatusFacts {
  /** Whether the leader answered. Only the leader knows held removals and the state of workloads. */
  readonly leader: boolean;
  readonly synced: boolean;
  readonly sources: readonly {
    readonly name: string;
    readonly synced: boolean;
    /** Objects that the controller refuses in whole or in part, each with its place. */
    readonly problems?: readonly (Reason & { readonly place: string })[] | undefined;
  }[];
  readonly hold?: { readonly names: number; readonly of: number; readonly until: number } | undefined;
  readonly warnings: readonly Reason[];
  readonly targets: readonly {
    readonly name: string;
    readonly relayed: boolean;
    /** `namespace/name` of a Service, or a host. */
    readonly upstream: string;
    readonly ports: readonly { readonly port: number }[];
  }[];
  readonly names: readonly {
    readonly name: string;
    readonly reason?: Reason | undefined;
    /** The addresses that the cluster's DNS returned for the name. */
    readonly resolved?: readonly string[] | undefined;
  }[];
  readonly running?: { readonly workloads: readonly WorkloadInfo[] } | undefined;
}

/** An owner of opted-in pods, from the leader's status (controller/rollout/rollout-status.ts). */
export interface WorkloadInfo extends ObjectName, Reason {
  readonly kind: string;
  readonly stale: number;
  /** `stuck`: it stays stale until a person acts. */
  readonly standing: string;
  /** How its pods follow the map. */
  readonly mode?: string | undefined;
  /** Where the mode is set; `workload` means the workload's own annotation. */
  readonly modeFrom?: string | undefined;
}

/** The state of the Switchback installation. */
export interface InstallFacts {
  /** Undefined if there is no configuration. */
  readonly config: Fact<Config | undefined>;
  /** The targets that the proxies read; undefined if none were published yet. */
  readonly targets: Fact<readonly PublishedTarget[] | undefined>;
  readonly deployments: Fact<readonly DeploymentFacts[]>;
  readonly map: Fact<MapFacts | undefined>;
  /** The controller's /status. */
  readonly status: Fact<StatusFacts>;
  /** The body of a proxy replica's /readyz. */
  readonly proxyReadyz: Fact<string>;
}

export interface AdmissionFacts {
  /** Undefined if the webhook configuration does not exist. */
  readonly configuration: Fact<readonly WebhookEntry[] | undefined>;
  /**
   * The certificate in the webhook's Secret, PEM; undefined if there is no Secret. The doctor does not keep the
   * private key.
   */
  readonly servingCertificate: Fact<string | undefined>;
  readonly dryRun: Fact<DryRun>;
}

/** A file that the cluster's CoreDNS reads or can read. */
export interface DnsFileFacts {
  /** The ConfigMap, as `namespace/name`. */
  readonly place: string;
  readonly key: string;
  readonly text: string;
}

export interface ClusterFacts {
  /** Switchback's namespace (`--namespace`). */
  readonly namespace: string;
  /** Namespace of the dry-run pod and the probe pod. */
  readonly probeNamespace: string;
  readonly services: Fact<readonly ServiceFacts[]>;
  readonly ingresses: Fact<readonly RouteFacts[]>;
  readonly gateways: Fact<readonly RouteFacts[]>;
  /** Namespaces by name. */
  readonly namespaces: Fact<ReadonlyMap<string, NamespaceFacts>>;
  /** The IPs of all nodes; undefined if no Ingress or Gateway has an IP that no Service has. */
  readonly nodeAddresses?: Fact<ReadonlySet<string>> | undefined;
  /** Undefined if the cluster has no cert-manager. */
  readonly httpSolvers: Fact<readonly HttpSolverFacts[] | undefined>;
  readonly install: InstallFacts;
  /** Endpoints of the targets' upstream Services. */
  readonly endpoints: Fact<readonly EndpointFacts[]>;
  readonly admission: AdmissionFacts;
  /** The pods that opted in themselves, and all pods of namespaces that opted in, except finished ones. */
  readonly pods: Fact<readonly PodInfo[]>;
  /** The state of the updaters; undefined if no pod has the mode `live`. */
  readonly updaters: Fact<NodeUpdaters> | undefined;
  /** The files of the cluster's CoreDNS. */
  readonly clusterDns: Fact<readonly DnsFileFacts[]>;
  /** When the facts were read, milliseconds since 1970. */
  readonly now: number;
  /** Undefined if no probe was requested. */
  readonly probe: Fact<ProbeResult> | undefined;
  /**
   * The addresses that the cluster's DNS returned for each name, from the controller's status or a dump. Used without
   * a probe.
   */
  readonly lookups?: ReadonlyMap<string, readonly string[]>;
  /** Undefined if no log was given. */
  readonly callers?: Fact<CallerFacts> | undefined;
  /** The checks of extras, which have their own facts. */
  readonly added?: readonly Check[];
}

/** Yields the findings. A pure function of the facts. */
export type Check = (facts: ClusterFacts) => Finding[];

/** `namespace/name`. */
export function objectKey({ namespace, name }: ObjectName): string {
  return `${namespace}/${name}`;
}
