import type { Claim, ObjectRef, Reason } from "#hostmap/types.ts";

/**
 * What an object reveals about the ingress controller that serves it. Objects with equal hints have the same target.
 */
export interface RoutingHints {
  /** Ingress class or GatewayClass, or the cluster's default; undefined if there is none. */
  readonly className: string | undefined;
  /** Whether `className` is that of a GatewayClass: other software may have its name as an IngressClass. */
  readonly isGatewayClass?: true;
  /** The controller that serves it: that of its IngressClass or GatewayClass, or that of its kind. */
  readonly controller?: string;
  /** IP addresses and host names of its load balancer status, as written there. */
  readonly addresses: readonly string[];
  /**
   * The TCP ports on which it is served; if absent, those of HTTP and HTTPS. They distinguish
   * Services that share an address.
   */
  readonly ports?: readonly number[];
  /** Whether a controller has admitted it: it wrote a load balancer status, or accepted the route. */
  readonly admitted: boolean;
  /** The Service that serves it, if the object is or names one. */
  readonly service?: { readonly namespace: string; readonly name: string };
  /** The labels of the pods that serve it, if the object says so: a Service that serves it must select them all. */
  readonly selector?: Readonly<Record<string, string>>;
  /** The namespaces that have the object, if it says so: a Service that serves it must be in one of them. */
  readonly exportedTo?: readonly string[];
  /** Gateway API's Gateway that serves it: its implementation may make a Service for it alone. */
  readonly gateway?: { readonly namespace: string; readonly name: string };
  /** Why that Gateway is reached inside the cluster alone, if it says so itself. */
  readonly inside?: Reason;
  /** The target that an object chooses for its names, whatever else it says. */
  readonly chosen?: ChosenTarget;
}

/** The choice of an object by its annotation `switchback.dev/target`. */
export interface ChosenTarget {
  /** As written in the object, shortened: untrusted input. */
  readonly target: string;
  /** The namespace of the object that has the annotation, which needs the permission. */
  readonly namespace: string;
}

/**
 * An object's claim to a public hostname, before `controller/targets/resolve-claims.ts` finds the target that
 * serves the object.
 */
export interface UnresolvedClaim {
  /** As written in the object: untrusted input. */
  readonly hostname: string;
  readonly from: ObjectRef;
  /** creationTimestamp of the object, RFC 3339. */
  readonly created: string;
  /**
   * Shared by the claims of an object that have the same hints. A reason explains why the name cannot have a target.
   */
  readonly hints: RoutingHints | Reason;
  /** As in `Claim`. */
  readonly anyDepth?: true;
}

/** Receives the claims of an object. Called again for each change; without claims if the object was deleted. */
type Sink<C> = (object: string, claims: readonly C[]) => void;
export type ClaimSink = Sink<Claim>;
export type UnresolvedClaimSink = Sink<UnresolvedClaim>;

/** A problem that a person should fix; the rest of the source still works. */
export interface SourceProblem {
  /** The object or file, and the path in it: `a.yaml: doc 2: spec.rules[0].host`. */
  readonly place: string;
  readonly code: string;
  readonly text: string;
}

/** The current state of a source. */
export interface SourceState {
  readonly name: string;
  /** False until all objects were listed: until then absence means nothing. */
  readonly synced: boolean;
  readonly problems: readonly SourceProblem[];
  /** Milliseconds since its last event or attempt; undefined if nothing can hang. */
  readonly inactiveMs?: number;
}

/** Where the API serves the objects of a kind. */
export interface ApiResource {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  /** The plural name: `httproutes`. */
  readonly resource: string;
  readonly kind: string;
}

/** Converts objects of one kind to claims. */
interface SourceOf<C> {
  /** Starts. `sink` is called for every object, then for every change; `onSynced` once, after the initial list. */
  start(sink: Sink<C>, onSynced: () => void): void;
  state(): SourceState[];
  /** The resource of an object that was passed to the sink. Without it the objects are in no API server. */
  resourceOf?(object: string): ApiResource | undefined;
  /**
   * A new leader: the published names with their targets. Objects whose evidence of them is only missing are reported
   * again, and keep them.
   */
  keep?(published: ReadonlyMap<string, string>): void;
  stop(): Promise<void>;
}

/** A source whose claims have targets: the input of the plan. */
export type Source = SourceOf<Claim>;
/** A source whose claims have routing hints. */
export type UnresolvedSource = SourceOf<UnresolvedClaim>;
