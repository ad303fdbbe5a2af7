import type { DialResult, ProbeResult } from "./result.ts";

export type Version = "v1" | "v2";

/**
 * How a backend takes PROXY headers from the address of whoever asked. `accepts`: with and without. `demands`: only with.
 * `refuses`: only without. `mute`: it takes connections and answers none of them. `unreachable`: it takes none.
 */
export interface Stance {
  readonly kind: "accepts" | "demands" | "refuses" | "mute" | "unreachable";
  /** The versions that were answered. */
  readonly versions: readonly Version[];
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
export function stanceOf(result: ProbeResult, place: Place): Stance | undefined {
  const dials = dialsOf(result, place, "service");
  const bare = dials.find(({ header }) => header === "none");
  if (bare === undefined) return undefined;
  const versions = VERSIONS.filter((version) => dials.some((dial) => dial.header === version && answered(dial)));
  const detail = dials.map(({ header, outcome }) => `${HEADERS[header]}: ${outcome.detail}`).join("; ");
  return { kind: kindOf(dials, answered(bare), versions.length > 0), versions, detail };
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

function kindOf(dials: readonly DialResult[], bare: boolean, headed: boolean): Stance["kind"] {
  if (bare) return headed ? "accepts" : "refuses";
  if (headed) return "demands";
  const connected = dials.some(({ outcome }) => ["misread", "closed", "silent"].includes(outcome.kind));
  return connected ? "mute" : "unreachable";
}
