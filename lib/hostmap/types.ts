/** The object that makes a claim. */
export interface ObjectRef {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  /** These two are for Events. They are missing if no API server has the object. */
  readonly apiVersion?: string;
  readonly uid?: string;
}

/** An object's request to map a public hostname to a target. */
export interface Claim {
  /** The text in the object. It is untrusted until `lib/hostmap/hostnames.ts` has accepted it. */
  readonly hostname: string;
  /** Name of the target, or the reason why none was found. */
  readonly target: string | Reason;
  readonly from: ObjectRef;
  /** creationTimestamp of the object, RFC 3339. The oldest object wins a name. */
  readonly created: string;
  /**
   * The values to which public DNS should resolve the name: the IP addresses and host names of the object's load
   * balancer status.
   */
  readonly publicAddresses?: readonly string[];
  /** The object chooses the target explicitly. The choice stays even if DNS leads the name to another target. */
  readonly chosen?: true;
  /** The TCP ports on which the object is served. Default: those of HTTP and HTTPS. */
  readonly ports?: readonly number[];
  /** A problem of the target. The name is mapped anyway. */
  readonly warning?: Reason;
  /**
   * DNS leads the name to this target. So the object wins the name against objects with other targets, whatever their
   * ages.
   */
  readonly verified?: true;
  /**
   * The claim is not decided yet, and `target` says why. It neither adds nor removes: what is published for its
   * namespace stays.
   */
  readonly undecided?: true;
  /** The target that the claim may get. It is asked for a PROXY header, although the claim does not have it. */
  readonly maybe?: string;
  /** The target that the object means, if DNS or another rule keeps the name from it. It is asked, too. */
  readonly aim?: string;
  /**
   * The object only lacks evidence of a target, so DNS may give it its first one. `byClass` is the target that the
   * class of the object leads to, if there is one. `isElsewhere`: DNS leads the name to no Service here.
   */
  readonly lacking?: { readonly byClass: string | undefined; readonly isElsewhere?: true };
  /**
   * The hostname is a wildcard of Gateway API, which covers any number of labels. A wildcard of an Ingress covers one
   * label.
   */
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

/** A claim for the status: the name (as written, if invalid) and the decision. */
export interface ReportedClaim {
  readonly name: string;
  readonly from: ObjectRef;
  /** creationTimestamp of the object. */
  readonly since: string;
  readonly decision: ClaimDecision;
  /** A problem of a mapped name: a Service with that name was created later, or its target lacks something. */
  readonly warning?: Reason | undefined;
}

/**
 * The addresses to which the names of a target map: the ClusterIPs of the front Service, or with protocol `none`
 * those of the ingress controller.
 */
export interface TargetAddress {
  readonly name: string;
  /** IPv4 and/or IPv6 literals, at most one of each. Empty: not known yet, so the names are not published. */
  readonly clusterIPs: readonly string[];
}

/** One entry of a pod's `spec.hostAliases`. */
export interface HostAlias {
  ip: string;
  hostnames: string[];
}

/** A name and its addresses (one, or two when dual-stack). */
export interface HostLine {
  readonly name: string;
  readonly addresses: readonly string[];
  /** The namespace that has the name. Missing: unknown. */
  readonly holder?: string | undefined;
}

/** The published map as its consumers (webhook, agent, `inject`) read it: each name with its addresses. */
export interface PublishedMap {
  /** Short hash. Equal revisions mean equal content. */
  readonly revision: string;
  /** When the leader published it, milliseconds since 1970 by its clock. Missing: not known. */
  readonly published?: number;
  /** The lines without wildcards. Names that were published first come first. */
  readonly hosts: readonly HostLine[];
  /** All lines by name in the same order, with wildcards. */
  readonly lines: ReadonlyMap<string, HostLine>;
}
