import type { Claim, ObjectRef, Reason } from "../../hostmap/types.ts";

/** What an object tells of the ingress controller that serves it. Objects with equal hints lead to the same target. */
export interface RoutingHints {
  /** Ingress class or GatewayClass, the cluster's default included; undefined when there is neither. */
  readonly className: string | undefined;
  /** IP addresses and host names of its load balancer status, as written there. */
  readonly addresses: readonly string[];
  /** Whether a controller has taken it on: it wrote a load balancer status, or accepted the route. */
  readonly admitted: boolean;
  /** The Service that serves it, where the object is or names one. */
  readonly service?: { readonly namespace: string; readonly name: string };
}

/** One object's wish that a public hostname lead to whatever serves that object; `controller/targets/resolve-claims.ts` finds out what that is. */
export interface UnresolvedClaim {
  /** As written in the object: hostile input. */
  readonly hostname: string;
  readonly from: ObjectRef;
  /** creationTimestamp of the object, RFC 3339. */
  readonly created: string;
  /** Shared by the claims of an object where they are alike. A reason says why the name cannot lead anywhere. */
  readonly hints: RoutingHints | Reason;
}

/** Where a source puts what an object claims. Called again for each change; no claims means that the object is gone. */
type Sink<C> = (object: string, claims: readonly C[]) => void;
export type ClaimSink = Sink<Claim>;
export type UnresolvedClaimSink = Sink<UnresolvedClaim>;

/** Something a person should look at; the rest of the source still works. */
export interface SourceProblem {
  /** The object or file, and the path in it: `a.yaml: doc 2: spec.rules[0].host`. */
  readonly place: string;
  readonly code: string;
  readonly text: string;
}

/** How far a source can be trusted just now. */
export interface SourceState {
  readonly name: string;
  /** False until every object was seen once: until then absence means nothing. */
  readonly synced: boolean;
  readonly problems: readonly SourceProblem[];
  /** Milliseconds since it last heard or tried anything; absent where nothing can hang. */
  readonly inactiveMs?: number;
}

/** Turns objects of one kind into claims. */
export interface SourceOf<C> {
  /** Begins; `sink` hears of every object, then of every change. `onSynced` is called once, when the first full view is in. */
  start(sink: Sink<C>, onSynced: () => void): void;
  state(): SourceState[];
  stop(): Promise<void>;
}

/** A source whose claims name their targets: what the plan is made of. */
export type Source = SourceOf<Claim>;
/** A source as a kind of object has it. */
export type UnresolvedSource = SourceOf<UnresolvedClaim>;
