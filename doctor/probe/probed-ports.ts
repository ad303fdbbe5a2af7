import type { HeaderAnswer } from "#lib/documents/header-answers.ts";
import { answerOf, isConnected, takenVersions } from "#proxy/detection/ask.ts";
import { type ObjectName, objectKey, type ServicePort } from "../facts.ts";
import type { DialResult, ProbeOutcome, ProbeResult } from "./result.ts";

/** What the probe saw of a port of a Service. Undefined: it did not try that. */
export interface ProbedPort {
  readonly port: number;
  /**
   * How the backend handles PROXY headers from the probe pod's address. `accepts`: it answers with and without a
   * header. `demands`: it answers only with a header. `refuses`: it answers only without a header. `unreachable`: it
   * accepts no connection. `unclear`: it accepts connections, and did not answer, or not in time.
   */
  readonly kind: "accepts" | "demands" | "refuses" | "unreachable" | "unclear";
  /** The versions that it accepts. */
  readonly versions: readonly ("v1" | "v2")[];
  /** The outcome of each dial to the ClusterIP. */
  readonly detail: string;
  /** Without a header, at the load balancer's own address. */
  readonly direct: ProbeOutcome | undefined;
  /** The same with v1. */
  readonly directWithHeader: ProbeOutcome | undefined;
  /** At the front Service, through a proxy. On this route the ingress controller sees the proxies' addresses. */
  readonly front: ProbeOutcome | undefined;
}

const KINDS: Readonly<Partial<Record<HeaderAnswer, ProbedPort["kind"]>>> = {
  "demands-v1": "demands",
  "demands-v2": "demands",
  "demands-either": "demands",
  optional: "accepts",
  "refuses-header": "refuses",
};

/** The ports whose ClusterIP the probe dialled without a header. */
export function probedPorts(
  service: ObjectName & { readonly ports: readonly Pick<ServicePort, "port">[] },
  { dials }: ProbeResult,
): ProbedPort[] {
  return service.ports.flatMap(({ port }) => {
    const ofPort = dials.filter((dial) => dial.service === objectKey(service) && dial.servicePort === port);
    const at = (via: DialResult["via"], header: DialResult["header"]) =>
      ofPort.find((dial) => dial.via === via && dial.header === header)?.outcome;
    const none = at("service", "none");
    if (none === undefined) return [];
    const [v1, v2] = [at("service", "v1"), at("service", "v2")];
    const seen = { none, ...(v1 && { v1 }), ...(v2 && { v2 }) };
    const tried = Object.entries(seen);
    const isReached = tried.some(([, outcome]) => isConnected(outcome));
    return {
      port,
      kind: KINDS[answerOf(seen)] ?? (isReached ? "unclear" : "unreachable"),
      versions: takenVersions(seen),
      detail: tried
        .map(([header, { detail }]) => `${header === "none" ? "without a header" : `with ${header}`}: ${detail}`)
        .join("; "),
      direct: at("balancer", "none"),
      directWithHeader: at("balancer", "v1"),
      front: at("front", "none"),
    };
  });
}

export function answered(outcome: ProbeOutcome | undefined): boolean {
  return outcome?.kind === "answered";
}

/** Whether the probe pod got no connection in time on any port of the load balancer, as if something drops packets. */
export function isDropped(ports: readonly ProbedPort[]): boolean {
  const outcomes = ports.flatMap(({ direct }) => direct ?? []);
  return outcomes.length > 0 && outcomes.every(({ kind }) => kind === "timeout");
}

/**
 * Whether the ingress controller demands a header from a list of addresses and refuses one from all others, as
 * HAProxy's `expect-proxy layer4 if { src -f LIST }` does (haproxytech/kubernetes-ingress, pkg/haproxy/rules). The
 * list has the nodes, not the pods: kube-proxy masquerades pods that call an external address (pkg/proxy/iptables,
 * `KUBE-EXT`). To proxies that are not in the list, such a port looks as if the PROXY protocol were off.
 */
export function dependsOnAddress({ kind, direct, directWithHeader }: ProbedPort): boolean {
  return kind === "refuses" && direct !== undefined && !answered(direct) && answered(directWithHeader);
}

/** What the probe pod saw of these ports. Ports with the same outcomes share a text. */
export function describePorts(ports: readonly ProbedPort[]): string {
  const groups = Map.groupBy(ports, ({ detail, direct }) => {
    return detail + (direct === undefined ? "" : `; at its load balancer's address: ${direct.detail}`);
  });
  return [...groups]
    .map(([text, same]) => `from a pod, port ${same.map(({ port }) => port).join(" and ")}: ${text}`)
    .join("; ");
}
