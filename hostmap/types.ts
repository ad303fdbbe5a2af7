/** Where a claim comes from, as `kubectl` would name it. `file` is set for objects read from YAML files. */
export interface ObjectRef {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly file?: string;
}

/** One object's wish that a public hostname lead to a target. */
export interface Claim {
  /** As written in the object: hostile input until `hostmap/hostnames.ts` has accepted it. */
  readonly hostname: string;
  /** Name of the target, or why none was found. */
  readonly target: string | Reason;
  readonly from: ObjectRef;
  /** creationTimestamp of the object, RFC 3339; the oldest object wins a name. */
  readonly created: string;
  /** Where the name is expected to lead in public: what the object's load balancer status says, IP addresses and host names. */
  readonly publicAddresses?: readonly string[];
}

/** A machine code (a metric label, never reused) and a sentence for people. */
export interface Reason {
  readonly code: string;
  readonly text: string;
}

/** The verdict on one claim. */
export type ClaimDecision =
  | { readonly mapped: true; readonly target: string }
  | { readonly mapped: false; readonly reason: Reason };

/** An address that names lead to: the front Service's ClusterIPs, or (protocol `none`) the ingress controller's own. */
export interface TargetAddress {
  readonly name: string;
  /** IPv4 and/or IPv6 literals, at most one of each. Empty: not known yet, its names wait. */
  readonly clusterIPs: readonly string[];
}

/** One entry of a pod's `spec.hostAliases`. */
export interface HostAlias {
  ip: string;
  hostnames: string[];
}

/** What a consumer (webhook, agent, `inject`) needs of the published map: each name and the addresses it leads to. */
export interface PublishedMap {
  /** Short hash; equal revisions mean equal content. */
  readonly revision: string;
  /** Names in code-unit order, each exactly once. Made on first use, at the cost of all of them. */
  readonly names: readonly string[];
  /** `names.length`, at no cost. */
  readonly size: number;
  /** `names.slice(0, count)`, at the cost of `count` names. */
  readonly first: (count: number) => readonly string[];
  /** The addresses of a name: one or two, shared arrays. */
  readonly addressesOf: (name: string) => readonly string[] | undefined;
}
