import type { DialResult, ProbeResult } from "./result.ts";

type Version = "v1" | "v2";

/**
 * How a backend takes PROXY headers from the address of whoever asked. `accepts`: with and without. `demands`: only with.
 * `refuses`: only without. `mute`: it takes connections and ends them without an answer. `unreachable`: it takes none. `unclear`: what would
 * tell was not answered in time, which a slow backend does too.
 */
export interface ProxyProtocolSupport {
  readonly kind: "accepts" | "demands" | "refuses" | "mute" | "unreachable" | "unclear";
  /** The versions that were answered. */
  readonly versions: readonly Version[];
  /** The versions of which it is not known: no answer in time. */
  readonly silent: readonly Version[];
  /** What came of each try. */
  readonly detail: string;
}

/** A Service's port, as the dials name it. */
export interface Place {
  readonly service: string;
  readonly servicePort: number;
}

const VERSIONS: readonly Version[] = ["v1", "v2"];

/** The stance of a Service's port, asked at its ClusterIP; undefined: nobody asked there. */
export function proxyProtocolSupportOf(result: ProbeResult, place: Place): ProxyProtocolSupport | undefined {
  const dials = dialsOf(result, place, "service");
  const bare = dials.find(({ header }) => header === "none");
  if (bare === undefined) return undefined;
  const headed = dials.filter(({ header }) => header !== "none");
  const versions = VERSIONS.filter((version) => headed.some((dial) => dial.header === version && answered(dial)));
  const silent = VERSIONS.filter((version) => headed.some((dial) => dial.header === version && isSilent(dial)));
  const detail = dials.map(({ header, outcome }) => `${HEADERS[header]}: ${outcome.detail}`).join("; ");
  return { kind: kindOf(bare, headed), versions, silent, detail };
}

/** What came of calling the load balancer's own address, or of going through the front Service. */
export function dialOf(result: ProbeResult, place: Place, via: "balancer" | "front"): DialResult | undefined {
  return dialsOf(result, place, via)[0];
}

export function answered({ outcome }: Pick<DialResult, "outcome">): boolean {
  return outcome.kind === "answered";
}

const HEADERS = { none: "without a header", v1: "with v1", v2: "with v2" } as const;

function dialsOf(result: ProbeResult, { service, servicePort }: Place, via: DialResult["via"]): DialResult[] {
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
  return [bare, ...headed].some(({ outcome }) => ENDED.has(outcome.kind)) ? "mute" : "unreachable";
}

/** There was a connection, and it ended without an answer. */
const ENDED: ReadonlySet<string> = new Set(["misread", "closed", "silent"]);
