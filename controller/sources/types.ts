import type { PublishedLine } from "#hostmap/published-names.ts";
import type { Claim, ObjectRef, Reason } from "#hostmap/types.ts";

/**
 * The routing hints of an object tell which ingress controller serves it. Objects with equal hints have the same
 * target.
 */
export interface RoutingHints {
  /** Ingress class or GatewayClass, or the cluster's default; undefined if there is none. */
  readonly className: string | undefined;
  /** Whether `className` is that of a GatewayClass. Other software may have an IngressClass of the same name. */
  readonly isGatewayClass?: true;
  /** The controller that serves the object, according to its IngressClass or GatewayClass, or to its kind. */
  readonly controller?: string;
  /** IP addresses and host names of its load balancer status, as written there. */
  readonly addresses: readonly string[];
  /**
   * The TCP ports on which the object is served. Default: the ports of HTTP and HTTPS. They distinguish Services that
   * share an address.
   */
  readonly ports?: readonly number[];
  /** Whether a controller has admitted the object: it wrote a load balancer status, or accepted the route. */
  readonly admitted: boolean;
  /** The Service that serves the object, if the object is or names a Service. */
  readonly service?: { readonly namespace: string; readonly name: string };
  /**
   * The labels of the pods that serve the object, if it names them. A Service that serves the object must have all of
   * them in its own selector.
   */
  readonly selector?: Readonly<Record<string, string>>;
  /** The namespaces that get the object, if it limits them. A Service that serves the object must be in one of them. */
  readonly exportedTo?: readonly string[];
  /**
   * The Gateway of Gateway API that serves the object. Its implementation may make a Service only for this Gateway.
   * `classNamespace` is the namespace that its GatewayClass names for the parameters of the implementation.
   */
  readonly gateway?: { readonly namespace: string; readonly name: string; readonly classNamespace?: string };
  /** Why that Gateway is reachable only inside the cluster, if the Gateway itself says so. */
  readonly inside?: Reason;
  /** The target that the object chooses for its names. It overrides the other hints. */
  readonly chosen?: ChosenTarget;
}

/** An object's choice of a target, by its annotation `switchback.dev/target`. */
export interface ChosenTarget {
  /** As written in the object, but truncated: untrusted input. */
  readonly target: string;
  /** The namespace of the object with the annotation. This namespace needs the permission. */
  readonly namespace: string;
}

/** What a source sees of an object's claim to a public hostname. The pipeline finds the object's target. */
export interface View {
  /** As written in the object: untrusted input. */
  readonly hostname: string;
  readonly from: ObjectRef;
  /** creationTimestamp of the object, RFC 3339. */
  readonly created: string;
  /** A reason explains why the name cannot have a target. */
  readonly hints: RoutingHints | Reason;
  /** See `Claim`. */
  readonly anyDepth?: true;
}

/** Receives the views of an object. Called again for each change; without views if the object was deleted. */
export type ViewSink = (object: string, views: readonly View[]) => void;
/** Receives the claims of an object. Called again for each change; without claims if the object was deleted. */
export type ClaimSink = (object: string, claims: readonly Claim[]) => void;

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
  /** False until all objects were listed. Until then, a missing object may still exist. */
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

/** The published names, each with its target and the namespace that has it. */
export type Published = Iterable<readonly [name: string, line: Pick<PublishedLine, "target" | "holder">]>;

/** Converts objects of some kinds to views. */
export interface Source {
  /**
   * Starts. `sink` is called for every object, and then for every change. `onSynced` is called once, after the
   * initial list.
   */
  start(sink: ViewSink, onSynced: () => void): void;
  state(): SourceState[];
  /** The resource of an object that was passed to the sink. Undefined: no API server has the objects. */
  resourceOf?(object: string): ApiResource | undefined;
  stop(): Promise<void>;
}

/** Something that must be known before any claim is decided. `onSynced` is called once. */
export type Prerequisite = Pick<Source, "state" | "stop"> & { start(onSynced: () => void): void };

/** The claims of all objects: the input of the plan. */
export interface ClaimSource {
  /** `onDue` is called when `decide` has something to do. */
  start(sink: ClaimSink, onDue: () => void): void;
  /**
   * Decides what is due: `sink` receives the claims of each object whose claims have changed. Resolves with the
   * milliseconds until something else is due. Undefined: nothing is.
   */
  decide(): Promise<number | undefined>;
  /** Decides again what others claim of these names, because their plan has changed. */
  planned?(names: Iterable<string>): void;
  /** Whether everything is decided with what can be read. Until then, all claims are undecided. */
  readonly isRead: boolean;
  /** Whether every source has been read. Until then, a missing claim may still exist. */
  readonly synced: boolean;
  state(): SourceState[];
  resourceOf?: Source["resourceOf"];
  /** Sets what an earlier leader published. */
  keep?(published: Published): void;
  stop(): Promise<void>;
}
