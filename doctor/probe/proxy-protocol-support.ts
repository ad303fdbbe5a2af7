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
  /** The versions that were answered. */
  readonly versions: readonly Version[];
  /** The versions that were not answered in time. */
  readonly silent: readonly Version[];
  /** The outcome of each dial. */
  readonly detail: string;
}

/** A Service's port, as the dials name it. */
export interface ServicePortRef {
  readonly service: string;
  readonly servicePort: number;
}

const VERSIONS: readonly Version[] = ["v1", "v2"];

/** PROXY protocol support of a Service's port, from the dials to its ClusterIP; undefined without such dials. */
export function proxyProtocolSupportOf(result: ProbeResult, portRef: ServicePortRef): ProxyProtocolSupport | undefined {
  const dials = dialsOf(result, portRef, "service");
  const bare = dials.find(({ header }) => header === "none");
  if (bare === undefined) return undefined;
  const headed = dials.filter(({ header }) => header !== "none");
  const versions = VERSIONS.filter((version) => headed.some((dial) => dial.header === version && answered(dial)));
  const silent = VERSIONS.filter((version) => headed.some((dial) => dial.header === version && isSilent(dial)));
  const detail = dials.map(({ header, outcome }) => `${HEADERS[header]}: ${outcome.detail}`).join("; ");
  return { kind: kindOf(bare, headed), versions, silent, detail };
}

/** The dial to the load balancer's own address, or to the front Service. */
export function dialOf(
  result: ProbeResult,
  portRef: ServicePortRef,
  via: "balancer" | "front",
): DialResult | undefined {
  return dialsOf(result, portRef, via)[0];
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

function isSilent({ outcome }: DialResult): boolean {
  return outcome.kind === "silent";
}

function kindOf(bare: DialResult, headed: readonly DialResult[]): ProxyProtocolSupport["kind"] {
  if (headed.some(answered)) return answered(bare) ? "accepts" : "demands";
  if (answered(bare)) return headed.every(isSilent) ? "unclear" : "refuses";
  if (headed.some(isSilent)) return "unclear";
  return [bare, ...headed].some(({ outcome }) => NOT_ANSWERED.has(outcome.kind)) ? "mute" : "unreachable";
}

/** Outcomes of connections that were established and got no valid answer. */
const NOT_ANSWERED: ReadonlySet<string> = new Set(["misread", "closed", "silent"]);
