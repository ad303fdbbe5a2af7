import type { ObjectRef, Reason } from "#hostmap/types.ts";
import type { Informer } from "#lib/kube/watch.ts";

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
   * `asksInside`: it asks for a Service of type ClusterIP.
   */
  readonly gateway?: {
    readonly namespace: string;
    readonly name: string;
    readonly classNamespace?: string;
    readonly asksInside?: true;
  };
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

/** A problem that a person should fix; the rest of the source still works. */
interface SourceProblem extends Reason {
  /** The kind. */
  readonly place: string;
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

/** Converts the state of an informer to the state of a source. */
export function informerState(name: string, informer: Informer<unknown> | undefined): SourceState {
  if (informer === undefined) return { name, synced: false, problems: [] };
  const { synced, problem, inactiveMs } = informer.state;
  return { name, synced, inactiveMs, problems: problem === undefined ? [] : [{ place: name, ...problem }] };
}

/** Converts objects of some kinds to views. */
export interface Source {
  /**
   * Starts. `sink` is called for every object, and then for every change. `onSynced` is called once, after the
   * initial list.
   */
  start(sink: ViewSink, onSynced: () => void): void;
  state(): SourceState[];
  stop(): Promise<void>;
}
