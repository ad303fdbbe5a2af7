/** The object that makes a claim. `file` is set for objects read from YAML files. */
export interface ObjectRef {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly file?: string;
}

/** An object's request to map a public hostname to a target. */
export interface Claim {
  /** As written in the object: untrusted until `lib/hostmap/hostnames.ts` has accepted it. */
  readonly hostname: string;
  /** Name of the target, or the reason why none was found. */
  readonly target: string | Reason;
  readonly from: ObjectRef;
  /** creationTimestamp of the object, RFC 3339; the oldest object wins a name. */
  readonly created: string;
  /**
   * What the name should resolve to in public DNS: the IP addresses and host names of the object's load balancer
   * status.
   */
  readonly publicAddresses?: readonly string[];
  /** Its object chooses the target: that DNS leads the name to another one does not change it. */
  readonly chosen?: true;
  /** The TCP ports on which the object is served; absent: those of HTTP and HTTPS. */
  readonly ports?: readonly number[];
  /** What is wrong with its target, which is mapped all the same. */
  readonly warning?: Reason;
  /**
   * Its object has no evidence of the target any more, for this reason. The name stays mapped to it if it is, and if
   * no claim with evidence wants it.
   */
  readonly kept?: Reason;
  /** DNS leads the name to its target: of objects with different targets it has the name, whatever their ages. */
  readonly verified?: true;
  /**
   * The target that it may get: it is not decided yet whether it gets one, and `target` says why. What is published
   * of the name stays until then.
   */
  readonly pending?: string;
  /**
   * The target that it would have if the target expected a PROXY header, which is asked again. `target` says that it
   * does not.
   */
  readonly candidate?: string;
  /** The hostname is a wildcard of Gateway API, which covers any number of labels; one of an Ingress covers one. */
  readonly anyDepth?: true;
}

/** A machine-readable code (a metric label, never reused) and a sentence for users. */
export interface Reason {
  readonly code: string;
  readonly text: string;
}

/** The decision on one claim. */
export type ClaimDecision =
  | { readonly mapped: true; readonly target: string }
  | { readonly mapped: false; readonly reason: Reason };

/**
 * The addresses that names of a target map to: the ClusterIPs of the front Service, or with protocol `none` the ingress
 * controller's.
 */
export interface TargetAddress {
  readonly name: string;
  /** IPv4 and/or IPv6 literals, at most one of each. Empty: not known yet, and its names are not published. */
  readonly clusterIPs: readonly string[];
}

/** One entry of a pod's `spec.hostAliases`. */
export interface HostAlias {
  ip: string;
  hostnames: string[];
}

/** The published map as a consumer (webhook, agent, `inject`) reads it: each name with its addresses. */
export interface PublishedMap {
  /** Short hash; equal revisions mean equal content. */
  readonly revision: string;
  /** Names in code-unit order, each once. Built on first use, in time proportional to the number of names. */
  readonly names: readonly string[];
  /** `names.length`, in constant time. */
  readonly size: number;
  /**
   * The `count` names that were published first, in name order; in time proportional to `count`, times its logarithm.
   */
  readonly first: (count: number) => readonly string[];
  /**
   * When the name was first published, as a sequence number that survives restarts; 0: before these were kept, or
   * not known.
   */
  readonly orderOf: (name: string) => number;
  /** The addresses of a name: one or two, in a shared array. */
  readonly addressesOf: (name: string) => readonly string[] | undefined;
}
