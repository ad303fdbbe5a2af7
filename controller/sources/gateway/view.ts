import { foldCase } from "../../../hostmap/hostnames.ts";
import { IGNORE_KEY } from "../../../hostmap/metadata-keys.ts";
import type { ObjectRef } from "../../../hostmap/types.ts";
import { listOf, mapOf, numberOf, type Raw, textOf, textsOf } from "../raw-object.ts";
import type { RoutingHints } from "../types.ts";

export const GATEWAY_GROUP = "gateway.networking.k8s.io";

/** The kinds of route whose requests carry a hostname that a client looks up. */
export const ROUTE_KINDS = ["HTTPRoute", "GRPCRoute", "TLSRoute"] as const;
export type RouteKind = (typeof ROUTE_KINDS)[number];

/** What Switchback keeps of a Gateway (gateway.networking.k8s.io/v1). */
export interface GatewayView {
  readonly ref: ObjectRef;
  readonly created: string;
  readonly ignored: boolean;
  /** Whether its controller takes it on; otherwise `refusal` may hold the controller's words. */
  readonly accepted: boolean;
  readonly refusal: string | undefined;
  readonly hints: RoutingHints;
  readonly listeners: readonly ListenerView[];
}

/** One listener whose protocol knows hostnames. */
export interface ListenerView {
  readonly name: string;
  readonly port: number | undefined;
  /** As written; undefined: all names. */
  readonly hostname: string | undefined;
  /** The same in lower case. */
  readonly folded: string | undefined;
  readonly kinds: readonly RouteKind[];
  readonly from: "Same" | "All" | "Selector" | "None";
  /** Which namespaces, with `from: Selector`. */
  readonly selector: unknown;
  /** The controller refuses this one, for instance because another listener has its hostname and port. */
  readonly refused: boolean;
}

/** What Switchback keeps of a route. */
export interface RouteView {
  readonly kind: RouteKind;
  readonly ref: ObjectRef;
  readonly created: string;
  readonly ignored: boolean;
  /** As written, each once. None: whatever its listeners take. */
  readonly hostnames: readonly string[];
  /** Its parents that are Gateways. */
  readonly parents: readonly ParentView[];
}

/** A Gateway, or a part of one, that a route wants to hang on. */
export interface ParentView {
  /** `namespace/name` of the Gateway. */
  readonly gateway: string;
  readonly sectionName: string | undefined;
  readonly port: number | undefined;
  readonly accepted: boolean;
  /** The controller's words when it refused. */
  readonly refusal: string | undefined;
}

/** Which routes a listener takes by its protocol (`ProtocolType` and `AllowedRoutes.kinds`). TCP and UDP know no hostnames. */
const KINDS_OF_PROTOCOL: Readonly<Record<string, readonly RouteKind[]>> = {
  HTTP: ["HTTPRoute", "GRPCRoute"],
  HTTPS: ["HTTPRoute", "GRPCRoute"],
  TLS: ["TLSRoute"],
  TCP: [],
  UDP: [],
};

/** Keeps what matters of a Gateway. Two with the same content are deeply equal, whatever else changed in the object. */
export function viewGateway(raw: Raw, file?: string): GatewayView {
  const spec = mapOf(raw.spec);
  const status = mapOf(raw.status);
  const accepted = conditionOf(status.conditions, "Accepted");
  const refused = new Set(
    listOf(status.listeners)
      .filter(isRefused)
      .map((listener) => mapOf(listener).name),
  );
  const addresses = listOf(status.addresses).flatMap(addressOf);
  return {
    ...common("Gateway", raw, file),
    accepted: accepted.status === "True",
    refusal: accepted.words,
    hints: {
      className: textOf(spec.gatewayClassName),
      addresses: [...new Set(addresses)],
      admitted: addresses.length > 0 || accepted.status === "True",
    },
    listeners: listOf(spec.listeners).flatMap((listener) => viewListener(mapOf(listener), refused)),
  };
}

function viewListener(raw: Raw, refused: ReadonlySet<unknown>): ListenerView[] {
  const allowed = mapOf(raw.allowedRoutes);
  const namespaces = mapOf(allowed.namespaces);
  const kinds = kindsOf(textOf(raw.protocol) ?? "", listOf(allowed.kinds));
  if (kinds.length === 0) return [];
  const hostname = textOf(raw.hostname);
  return [
    {
      name: textOf(raw.name) ?? "",
      port: numberOf(raw.port),
      hostname,
      folded: hostname && foldCase(hostname),
      kinds,
      from: fromOf(namespaces.from),
      selector: namespaces.from === "Selector" ? namespaces.selector : undefined,
      refused: refused.has(raw.name),
    },
  ];
}

/** A protocol of an implementation's own takes the kinds that the listener lists; a known one never takes a kind that cannot work. */
function kindsOf(protocol: string, listed: readonly unknown[]): readonly RouteKind[] {
  const possible = Object.hasOwn(KINDS_OF_PROTOCOL, protocol) ? KINDS_OF_PROTOCOL[protocol] : undefined;
  if (listed.length === 0) return possible ?? [];
  const names = listed
    .map(mapOf)
    .filter(({ group }) => group === undefined || group === GATEWAY_GROUP)
    .map(({ kind }) => kind);
  return (possible ?? ROUTE_KINDS).filter((kind) => names.includes(kind));
}

/** The default is Same; a value that is not known yet lets nobody in. */
function fromOf(value: unknown): ListenerView["from"] {
  if (value === undefined || value === "Same") return "Same";
  return value === "All" || value === "Selector" ? value : "None";
}

function addressOf(raw: unknown): string[] {
  const { type, value } = mapOf(raw);
  const known = type === undefined || type === "IPAddress" || type === "Hostname";
  const text = known ? textOf(value) : undefined;
  return text === undefined ? [] : [text];
}

/** Keeps what matters of a route. */
export function viewRoute(kind: RouteKind, raw: Raw, file?: string): RouteView {
  const spec = mapOf(raw.spec);
  const own = common(kind, raw, file);
  const { namespace } = own.ref;
  const statuses = listOf(mapOf(raw.status).parents).map(mapOf);
  return {
    kind,
    ...own,
    hostnames: [...new Set(textsOf(spec.hostnames))],
    parents: listOf(spec.parentRefs)
      .map(mapOf)
      .filter(isGateway)
      .map((ref) => viewParent(ref, statuses, namespace)),
  };
}

function viewParent(raw: Raw, statuses: readonly Raw[], namespace: string): ParentView {
  const key = refKey(raw, namespace);
  // Several controllers may have written about the same parent; one that takes it is enough.
  const conditions = statuses
    .filter(({ parentRef }) => isGateway(mapOf(parentRef)) && refKey(mapOf(parentRef), namespace) === key)
    .map((status) => conditionOf(status.conditions, "Accepted"));
  const accepted = conditions.some(({ status }) => status === "True");
  return {
    gateway: `${textOf(raw.namespace) ?? namespace}/${textOf(raw.name) ?? ""}`,
    sectionName: textOf(raw.sectionName),
    port: numberOf(raw.port),
    accepted,
    refusal: accepted ? undefined : conditions.find(({ words }) => words !== undefined)?.words,
  };
}

/** Group and kind have defaults (`ParentReference`); a Service as a parent is a mesh's, and other kinds are unknown to us. */
function isGateway({ group, kind }: Raw): boolean {
  return (group === undefined || group === GATEWAY_GROUP) && (kind === undefined || kind === "Gateway");
}

function refKey({ namespace, name, sectionName, port }: Raw, own: string): string {
  return JSON.stringify([textOf(namespace) ?? own, name, textOf(sectionName) ?? null, numberOf(port) ?? null]);
}

function isRefused(listener: unknown): boolean {
  const { conditions } = mapOf(listener);
  return (
    conditionOf(conditions, "Accepted").status === "False" || conditionOf(conditions, "Conflicted").status === "True"
  );
}

/** A condition's status, and its reason and message where it is not True. */
function conditionOf(conditions: unknown, type: string): { status: unknown; words: string | undefined } {
  const found = listOf(conditions)
    .map(mapOf)
    .find((condition) => condition.type === type);
  const { status, reason, message } = found ?? {};
  const words = [textOf(reason), textOf(message)].filter((text) => text !== undefined);
  return { status, words: status === "True" || words.length === 0 ? undefined : words.join(": ") };
}

function common(kind: string, raw: Raw, file: string | undefined) {
  const metadata = mapOf(raw.metadata);
  const ref = { kind, namespace: textOf(metadata.namespace) ?? "default", name: textOf(metadata.name) ?? "" };
  return {
    ref: file === undefined ? ref : { ...ref, file },
    created: textOf(metadata.creationTimestamp) ?? "",
    ignored: mapOf(metadata.annotations)[IGNORE_KEY] === "true",
  };
}
