import type { HeaderAnswer } from "#lib/documents/header-answers.ts";
import { answerOf, isConnected, takenVersions } from "#proxy/detection/ask.ts";
import type { Seen } from "#proxy/detection/outcome.ts";
import type { DialResult, ProbeResult } from "./result.ts";

type Version = "v1" | "v2";

/**
 * How a backend handles PROXY headers from the probe pod's address. `accepts`: it answers with and
 * without a header. `demands`: it answers only with a header. `refuses`: it answers only without a
 * header. `unreachable`: it accepts no connection. `unclear`: it accepts connections, and did not
 * answer, or not in time.
 */
export interface ProxyProtocolSupport {
  readonly kind: "accepts" | "demands" | "refuses" | "unreachable" | "unclear";
  /** The versions that it accepts. */
  readonly versions: readonly Version[];
  /** The outcome of each dial. */
  readonly detail: string;
}

/** A Service's port, as the dials name it. */
export interface ServicePortRef {
  readonly service: string;
  readonly servicePort: number;
}

/** PROXY protocol support of a Service's port, from the dials to its ClusterIP; undefined without such dials. */
export function proxyProtocolSupportOf(result: ProbeResult, portRef: ServicePortRef): ProxyProtocolSupport | undefined {
  const dials = dialsOf(result, portRef, "service");
  const seen: Partial<Seen> = Object.fromEntries(dials.map(({ header, outcome }) => [header, outcome]));
  if (seen.none === undefined) return undefined;
  const detail = dials.map(({ header, outcome }) => `${HEADERS[header]}: ${outcome.detail}`).join("; ");
  return { kind: KINDS[answerOf(seen)] ?? unknownKind(seen), versions: takenVersions(seen), detail };
}

/** The dial to the load balancer's own address, or to the front Service. */
export function dialOf(
  result: ProbeResult,
  portRef: ServicePortRef,
  via: "balancer" | "front",
  header: "none" | "v1" = "none",
): DialResult | undefined {
  return dialsOf(result, portRef, via).find((dial) => dial.header === header);
}

export function answered({ outcome }: Pick<DialResult, "outcome">): boolean {
  return outcome.kind === "answered";
}

const HEADERS = { none: "without a header", v1: "with v1", v2: "with v2" } as const;

function dialsOf(result: ProbeResult, { service, servicePort }: ServicePortRef, via: DialResult["via"]): DialResult[] {
  return result.dials.filter(
    (dial) => dial.service === service && dial.servicePort === servicePort && dial.via === via,
  );
}

const KINDS: Readonly<Partial<Record<HeaderAnswer, ProxyProtocolSupport["kind"]>>> = {
  "demands-v1": "demands",
  "demands-v2": "demands",
  "demands-either": "demands",
  optional: "accepts",
  "refuses-header": "refuses",
};

/** The kind if the outcomes do not decide it. */
function unknownKind({ none, v1, v2 }: Partial<Seen>): ProxyProtocolSupport["kind"] {
  return [none, v1, v2].some((outcome) => outcome !== undefined && isConnected(outcome)) ? "unclear" : "unreachable";
}
