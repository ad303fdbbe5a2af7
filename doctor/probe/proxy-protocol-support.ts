import type { HeaderAnswer } from "#lib/documents/header-answers.ts";
import { answerOf, isConnected, takenVersions } from "#proxy/detection/ask.ts";
import type { Seen } from "#proxy/detection/dial.ts";
import type { DialResult, ProbeResult } from "./result.ts";

type Version = "v1" | "v2";

/**
 * How a backend handles PROXY headers from the probe pod's address. `accepts`: it answers with and
 * without a header. `demands`: it answers only with a header. `refuses`: it answers only without a
 * header. `mute`: it accepts connections and does not answer. `unreachable`: it accepts no
 * connection. `unclear`: a decisive dial had no answer in time, so the backend may be slow.
 */
export interface ProxyProtocolSupport {
  readonly kind: "accepts" | "demands" | "refuses" | "mute" | "unreachable" | "unclear";
  /** The versions that it accepts. */
  readonly versions: readonly Version[];
  /** The versions that it did not answer in time. */
  readonly silent: readonly Version[];
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
  const silent = (["v1", "v2"] as const).filter((version) => seen[version]?.kind === "silent");
  const detail = dials.map(({ header, outcome }) => `${HEADERS[header]}: ${outcome.detail}`).join("; ");
  return { kind: KINDS[answerOf(seen)] ?? unknownKind(seen), versions: takenVersions(seen), silent, detail };
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

/** The kind if the outcomes do not decide it. `unclear` means that another probe may decide it. */
function unknownKind({ none, v1, v2 }: Partial<Seen>): ProxyProtocolSupport["kind"] {
  const all = [none, v1, v2].flatMap((outcome) => outcome ?? []);
  if (all.some(({ kind }) => kind === "answered")) return "unclear";
  if ([v1, v2].some((outcome) => outcome?.kind === "silent")) return "unclear";
  return all.some(isConnected) ? "mute" : "unreachable";
}
