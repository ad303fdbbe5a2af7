import type { HeaderAnswer } from "#lib/documents/header-questions.ts";

import type { Protocol } from "../targets/proxy-protocol-annotations.ts";
import type { HeaderReason } from "../targets/resolver.ts";
import { type FoundTarget, HTTP_PORTS } from "../targets/service-view.ts";

/** What is known of the ports of a target, beyond its definition. */
export interface HeaderFacts {
  /** The answer that counts; undefined: there was none yet. */
  readonly answerOf: (port: number) => HeaderAnswer | undefined;
  /** The protocol that the proxies use for the port now; undefined: the target is not relayed. */
  readonly publishedAs: (port: number) => Protocol | undefined;
  /** The ports that objects want, besides those of HTTP and HTTPS. */
  readonly wanted: ReadonlySet<number>;
  /** The version for ingress controllers that take both. */
  readonly preferred: "v1" | "v2";
  /** Whether the Service says that its names are mapped in any case. */
  readonly mapsAlways: boolean;
}

export interface DecidedProtocols {
  /** The target, each port with its protocol. */
  readonly target: FoundTarget;
  readonly against?: HeaderReason;
}

/**
 * The ports whose ingress controller is asked: those of HTTP and HTTPS. A target without them is asked at the ports
 * that objects want.
 */
export function askedPorts({ ports }: FoundTarget, wanted: ReadonlySet<number>): FoundTarget["ports"] {
  const ofHttp = ports.filter(({ port }) => HTTP_PORTS.includes(port));
  const web = ofHttp.length > 0 ? ofHttp : ports.filter(({ port }) => wanted.has(port));
  return web.filter(({ stated }) => stated !== undefined);
}

/**
 * Decides the protocol of each port: the switchback.dev annotation, then the ingress controller's answer, then a
 * provider's annotation. Without any of them the port keeps what the proxies use now. Ports that are not asked follow
 * a provider's annotation, or the asked ones. The names of a target are mapped if one of the asked ports is decided.
 */
export function decideProtocols(target: FoundTarget, facts: HeaderFacts): DecidedProtocols {
  const asked = askedPorts(target, facts.wanted);
  if (asked.length === 0) return { target };
  const decided = new Map(asked.map((port) => [port.port, decidePort(port, facts)] as const));
  const usual = [443, 80, ...decided.keys()].map((port) => decided.get(port)).find((each) => each !== undefined);
  const ports = target.ports.map((each) => {
    if (each.stated === undefined || each.stated === "annotation") return each;
    const own = decided.get(each.port) ?? (each.stated === "provider" ? each.protocol : undefined);
    return { ...each, protocol: own ?? usual ?? each.protocol };
  });
  const relayed = { ...target, ports, clusterIPs: addressesOf(target, ports) };
  const against = usual === undefined ? headerUnknown(target) : refusal(target, asked, facts);
  return { target: relayed, ...(against && { against }) };
}

function decidePort({ port, protocol, stated }: FoundTarget["ports"][number], facts: HeaderFacts) {
  if (stated === "annotation") return protocol;
  const answered = protocolFor(facts.answerOf(port), facts.preferred);
  return answered ?? (stated === "provider" ? protocol : facts.publishedAs(port));
}

/** The protocol that an answer asks for; undefined if the answer decides nothing. */
function protocolFor(answer: HeaderAnswer | undefined, preferred: "v1" | "v2"): Protocol | undefined {
  switch (answer) {
    case "demands-v1":
      return "v1";
    case "demands-v2":
      return "v2";
    case "demands-either":
    case "optional":
      return preferred;
    case "refuses-header":
      return "none";
    case "unknown":
    case undefined:
      return undefined;
  }
}

/** If no port takes a header, names map to the Service itself. A port that another Service lends is relayed. */
function addressesOf({ upstreamIPs }: FoundTarget, ports: FoundTarget["ports"]): string[] {
  const isDirect = ports.every(({ protocol, upstreamIPs: lent }) => protocol === "none" && lent === undefined);
  return isDirect ? [...upstreamIPs] : [];
}

/** Pods that are short-circuited reach a port that refuses a header as it is. */
function refusal(
  { name }: FoundTarget,
  asked: FoundTarget["ports"],
  { answerOf, mapsAlways }: HeaderFacts,
): HeaderReason | undefined {
  const answers = asked.map(({ port, stated }) => (stated === "annotation" ? undefined : answerOf(port)));
  const known = answers.filter((answer) => answer !== "unknown");
  const refuses = known.length > 0 && known.every((answer) => answer === "refuses-header");
  if (!refuses || mapsAlways) return undefined;
  const text =
    `its target ${name} takes no PROXY header from the proxies: either the PROXY protocol is off there, and pods ` +
    "reach it without a mapping, or its list of trusted addresses lacks the proxies (docs/trust/README.md)";
  return { reason: { code: "header-not-expected", text }, pending: false };
}

/** Says nothing of what was seen: a tenant chooses where its Service leads, and would scan what the proxies reach. */
function headerUnknown({ name }: FoundTarget): HeaderReason {
  const text =
    `whether its target ${name} expects a PROXY header is not known: no proxy has had a clear answer yet; the ` +
    "Service's annotation switchback.dev/proxy-protocol decides it";
  return { reason: { code: "header-unknown", text }, pending: true };
}
