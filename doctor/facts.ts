import type { Reason } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";
import type { StatusPage } from "#lib/documents/status-page.ts";
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
  readonly appProtocol: string;
}

/** One entry of a Service's load balancer status. */
export interface LoadBalancerIngress {
  readonly ip?: string | undefined;
  readonly hostname?: string | undefined;
  /** Kubernetes defaults it to `VIP` if the provider does not set it (KEP-1860). */
  readonly ipMode?: string | undefined;
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
  /** The namespace of the Service that it calls; undefined if it calls a URL. */
  readonly serviceNamespace: string | undefined;
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
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** An updater, which updates the running pods of its node. Each node has at most one. */
export interface UpdaterInfo {
  readonly name: string;
  /** The revision of the map that every pod of the node has. */
  readonly mapRevision: string | undefined;
  /** The pod revisions that it has applied to all pods of the node that select them. */
  readonly podRevisions?: readonly string[] | undefined;
  /** Milliseconds since its last report, by the local clock. */
  readonly silentMs: number;
  /** Whether it was silent for no longer than the configuration allows (`pods.agentSilenceSeconds`). */
  readonly alive: boolean;
}

/** How many endpoints of a Service are ready. */
export interface EndpointFacts extends ObjectName {
  readonly ready: number;
}

/** The state of the Switchback installation. */
export interface InstallFacts {
  /** Undefined if there is no configuration. */
  readonly config: Fact<Config | undefined>;
  /** The targets in the controller's document; undefined if none were published yet. */
  readonly targets: Fact<readonly PublishedTarget[] | undefined>;
  readonly deployments: Fact<readonly DeploymentFacts[]>;
  /** The controller's /status. */
  readonly status: Fact<StatusPage>;
}

export interface AdmissionFacts {
  /** Undefined if the webhook configuration does not exist. */
  readonly configuration: Fact<readonly WebhookEntry[] | undefined>;
  readonly dryRun: Fact<DryRun>;
}

/** The public names of the cluster, as a controller decides about them. */
export interface NamesFacts {
  readonly names: readonly {
    readonly name: string;
    /** `namespace/name` of the Service that serves it; undefined if no Service of the cluster does, or if unknown. */
    readonly service: string | undefined;
  }[];
  /** What could not be read, and why. Names of these kinds may be missing. */
  readonly unread: readonly (Reason & { readonly kind: string })[];
}

export interface ClusterFacts {
  /** Switchback's namespace (`--namespace`). */
  readonly namespace: string;
  /** Namespace of the dry-run pod and the probe pod. */
  readonly probeNamespace: string;
  readonly services: Fact<readonly ServiceFacts[]>;
  readonly names: Fact<NamesFacts>;
  /** Namespaces by name. */
  readonly namespaces: Fact<ReadonlyMap<string, NamespaceFacts>>;
  /** Whether cert-manager checks a name itself before it issues a certificate by HTTP-01. */
  readonly selfChecks: Fact<boolean>;
  readonly install: InstallFacts;
  /** Endpoints of the targets' upstream Services. */
  readonly endpoints: Fact<readonly EndpointFacts[]>;
  readonly admission: AdmissionFacts;
  /** The pods that opted in themselves, and all pods of namespaces that opted in, except finished ones. */
  readonly pods: Fact<readonly PodInfo[]>;
  /** Undefined if no probe ran. */
  readonly probe: Fact<ProbeResult> | undefined;
  /** The checks of extras, which have their own facts. */
  readonly added?: readonly Check[];
}

/** Yields the findings. A pure function of the facts. */
export type Check = (facts: ClusterFacts) => Finding[];

/** `namespace/name`. */
export function objectKey({ namespace, name }: ObjectName): string {
  return `${namespace}/${name}`;
}
