import type { Reason } from "#hostmap/types.ts";
import type { HeaderAnswer } from "#lib/documents/header-answers.ts";
import type { ConfiguredTarget } from "../targets/configured-target.ts";
import type { Protocol } from "../targets/proxy-protocol-annotations.ts";
import type { HeaderReason } from "../targets/resolver.ts";
import { type FoundTarget, HTTP_PORTS } from "../targets/service-view.ts";

/** Facts about the ports of a target, beyond its definition. */
export interface HeaderFacts {
  /** The known answer; undefined: no answer yet. */
  readonly answerOf: (port: number) => HeaderAnswer | undefined;
  /** The protocol that the proxies use for the port now; undefined: the target is not relayed. */
  readonly publishedAs: (port: number) => Protocol | undefined;
  /** The ports that objects use, besides those of HTTP and HTTPS. */
  readonly wanted: ReadonlySet<number>;
  /** The version for ingress controllers that accept both. */
  readonly preferred: "v1" | "v2";
  /** Whether the names of the Service are always mapped (`map: always`). */
  readonly mapsAlways: boolean;
}

/** A target whose ports may be asked: those with `stated`. */
export type AskableTarget = ConfiguredTarget & Partial<Pick<FoundTarget, "upstreamIPs">>;
type Port = AskableTarget["ports"][number];

export interface DecidedProtocols<Target extends AskableTarget> {
  /** The target, with the decided protocol of each port. */
  readonly target: Target;
  readonly against?: HeaderReason;
}

/**
 * The ports whose ingress controller is asked: those of HTTP and HTTPS. If a target has neither, it is asked at the
 * ports that objects use.
 */
export function askedPorts(target: AskableTarget, wanted: ReadonlySet<number>): Port[] {
  return webPorts(target, wanted).filter(({ stated }) => stated !== undefined);
}

function webPorts({ ports }: AskableTarget, wanted: ReadonlySet<number>): Port[] {
  const ofHttp = ports.filter(({ port }) => HTTP_PORTS.includes(port));
  return ofHttp.length > 0 ? ofHttp : ports.filter(({ port }) => wanted.has(port));
}

/**
 * Decides the protocol of each port. The order of precedence is: the configuration, the switchback.dev annotation,
 * the ingress controller's answer, a provider's annotation, and the protocol that the proxies use now. Ports that are
 * not asked follow a provider's annotation, or the web ports. The names of a target are mapped if one of its web
 * ports is decided.
 */
export function decideProtocols<Target extends AskableTarget>(
  target: Target,
  facts: HeaderFacts,
): DecidedProtocols<Target> {
  const web = webPorts(target, facts.wanted);
  if (web.every(({ stated }) => stated === undefined)) return { target };
  const decided = new Map(web.map((port) => [port.port, decidePort(port, facts)] as const));
  const usual = [443, 80, ...decided.keys()].map((port) => decided.get(port)).find((each) => each !== undefined);
  const ports = target.ports.map((each) => {
    if (isFixed(each)) return each;
    const own = decided.get(each.port) ?? (each.stated === "provider" ? each.protocol : undefined);
    return { ...each, protocol: own ?? usual ?? each.protocol };
  });
  const relayed = { ...target, ports, clusterIPs: addressesOf(target, ports) };
  const against = usual === undefined ? headerUnknown(target) : refusal(target, web, facts);
  return { target: relayed, ...(against && { against }) };
}

/** Whether the configuration or the switchback.dev annotation sets the protocol, whatever the answer is. */
function isFixed({ stated }: Port): boolean {
  return stated === undefined || stated === "annotation";
}

function decidePort(each: Port, facts: HeaderFacts) {
  const { port, protocol, stated } = each;
  if (isFixed(each)) return protocol;
  const answered = protocolFor(facts.answerOf(port), facts.preferred);
  if (answered !== undefined || stated === "provider") return answered ?? protocol;
  const used = facts.publishedAs(port);
  // Pods with an old address still get `none` relayed. That is no evidence that names may be mapped without a header.
  return used === "none" && !facts.mapsAlways ? undefined : used;
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

/**
 * If no port takes a header, names map to the Service itself. If another Service lends a port, the target is relayed.
 * The configuration may set the addresses of its targets.
 */
function addressesOf({ clusterIPs, upstreamIPs, serviceIPs = [] }: AskableTarget, ports: readonly Port[]): string[] {
  if (upstreamIPs === undefined && clusterIPs.length > 0) return clusterIPs;
  const isDirect = ports.every(({ protocol, upstreamIPs: lent }) => protocol === "none" && lent === undefined);
  return isDirect ? [...(upstreamIPs ?? serviceIPs)] : [];
}

/**
 * Names need no mapping if every web port refuses a header, apart from unclear answers: pods that are short-circuited
 * reach such a port as it is.
 */
function refusal(
  { name }: AskableTarget,
  web: readonly Port[],
  { answerOf, mapsAlways }: HeaderFacts,
): HeaderReason | undefined {
  const answers = web.map((each) => (isFixed(each) ? undefined : answerOf(each.port)));
  const known = answers.filter((answer) => answer !== "unknown");
  const refuses = known.length > 0 && known.every((answer) => answer === "refuses-header");
  if (!refuses || mapsAlways) return undefined;
  const text =
    `its target ${name} refuses a PROXY header from the proxies. If the PROXY protocol is off there, pods need no ` +
    "mapping. Otherwise, add the proxies to its list of trusted addresses (docs/trust/README.md)";
  return { reason: { code: "header-not-expected", text }, pending: false };
}

/**
 * The text must not reveal the answer. A tenant chooses where its Service leads, and could scan what the proxies
 * reach.
 */
function headerUnknown({ name, upstreamIPs }: AskableTarget): HeaderReason {
  const cure =
    upstreamIPs === undefined
      ? "the `protocol` of its configured ports decides it"
      : "the Service's annotation switchback.dev/proxy-protocol decides it";
  const unknown = `it is not known yet whether its target ${name} expects a PROXY header`;
  const text = `${unknown}, because no proxy has received a clear answer; ${cure}`;
  return { reason: { code: "header-unknown", text }, pending: true };
}

/**
 * What contradicts the answer of a port: the annotation that decides, or what another proxy sees. A provider's
 * annotation decides nothing once there is an answer. Ports that another Service lends are not judged, because they may
 * be another tenant's.
 */
export function contradictionOf(
  { upstream, ports }: AskableTarget,
  number: number,
  answer: HeaderAnswer,
  seen: ReadonlyMap<HeaderAnswer, readonly string[]>,
): Reason | undefined {
  const port = ports.find((each) => each.port === number);
  if (port === undefined || port.upstreamIPs !== undefined || !("service" in upstream)) return undefined;
  const { protocol, says, stated } = port;
  const clear = [...seen].filter(([each]) => each !== "unknown");
  const texts: string[] = [];
  if (stated === "annotation" && !worksWith(protocol, answer))
    texts.push(`its annotation ${says}, but it answers ${answer}`);
  if (clear.length > 1)
    texts.push(clear.map(([each, proxies]) => `it answers ${each} (seen from ${proxies.join(", ")})`).join(", and "));
  if (texts.length === 0) return undefined;
  const { namespace, name } = upstream.service;
  return { code: "header-contradicted", text: `Service ${namespace}/${name}, port ${number}: ${texts.join("; ")}` };
}

/** Whether a port with this answer works with the protocol. `auto` and unclear answers contradict nothing. */
function worksWith(protocol: Port["protocol"], answer: HeaderAnswer): boolean {
  if (answer === "optional" || protocol === "auto") return true;
  const expected = protocolFor(answer, protocol === "v2" ? "v2" : "v1");
  return expected === undefined || expected === protocol;
}
