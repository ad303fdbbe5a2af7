import type { Reason } from "#hostmap/types.ts";
import type { HeaderAnswer } from "#lib/documents/header-answers.ts";
import type { Protocol } from "../targets/proxy-protocol-annotations.ts";
import { HTTP_PORTS } from "../targets/service-view.ts";
import type { Target } from "../targets/target.ts";

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

type Port = Target["ports"][number];

/** The code of the reason that leaves published names unchanged. */
export const HEADER_UNKNOWN = "header-unknown";

export interface DecidedProtocols {
  /** The target, with the decided protocol of each port. */
  readonly target: Target;
  /** Why the names of the target are not mapped to it. */
  readonly against?: Reason;
}

/**
 * The ports whose ingress controller is asked: those of HTTP and HTTPS. If a target has neither, it is asked at the
 * ports that objects use.
 */
export function askedPorts(target: Target, wanted: ReadonlySet<number>): Port[] {
  return webPorts(target, wanted).filter(({ stated }) => stated !== undefined && stated !== "invalid");
}

function webPorts({ ports }: Target, wanted: ReadonlySet<number>): Port[] {
  const ofHttp = ports.filter(({ port }) => HTTP_PORTS.includes(port));
  return ofHttp.length > 0 ? ofHttp : ports.filter(({ port }) => wanted.has(port));
}

/**
 * Decides the protocol of each port. The order of precedence is: the configuration, the switchback.dev annotation,
 * the ingress controller's answer, and a provider's annotation. Ports that are not asked follow a provider's
 * annotation, or the web ports. A web port without any of these keeps the header that the proxies send now. That is no
 * evidence: the names of a target are mapped only if one of its web ports is decided.
 */
export function decideProtocols(target: Target, facts: HeaderFacts): DecidedProtocols {
  const web = webPorts(target, facts.wanted);
  const decided = new Map(web.map((port) => [port.port, decidePort(port, facts)] as const));
  const usual = [443, 80, ...decided.keys()].map((port) => decided.get(port)).find((each) => each !== undefined);
  const ports = target.ports.map((each) => {
    if (isFixed(each)) return each;
    const own = decided.get(each.port) ?? (each.stated === "provider" ? each.protocol : undefined);
    const used = facts.publishedAs(each.port);
    const last = decided.has(each.port) && used !== "none" ? used : undefined;
    return { ...each, protocol: own ?? last ?? usual ?? used ?? each.protocol };
  });
  const relayed = { ...target, ports, clusterIPs: addressesOf(target, ports) };
  if (web.every(({ stated }) => stated === undefined)) return { target: relayed };
  const against = usual === undefined ? headerUnknown(target) : refusal(target, web, facts);
  return { target: relayed, ...(against && { against }) };
}

/** Whether the configuration or the switchback.dev annotation sets the protocol, whatever the answer is. */
function isFixed({ stated }: Port): boolean {
  return stated === undefined || stated === "annotation";
}

function decidePort(each: Port, { answerOf, preferred }: HeaderFacts) {
  const { port, protocol, stated } = each;
  if (isFixed(each)) return protocol;
  if (stated === "invalid") return undefined;
  return protocolFor(answerOf(port), preferred) ?? (stated === "provider" ? protocol : undefined);
}

/** The protocol that an answer asks for. Answers without one decide nothing. */
const PROTOCOLS: Readonly<Partial<Record<HeaderAnswer, Protocol | "preferred">>> = {
  "demands-v1": "v1",
  "demands-v2": "v2",
  "demands-either": "preferred",
  optional: "preferred",
  "refuses-header": "none",
};

function protocolFor(answer: HeaderAnswer = "unknown", preferred: "v1" | "v2"): Protocol | undefined {
  const protocol = PROTOCOLS[answer];
  return protocol === "preferred" ? preferred : protocol;
}

/**
 * If no port takes a header, names map to the Service itself. If another Service lends a port, the target is relayed.
 * The configuration may set the addresses of its targets.
 */
function addressesOf({ clusterIPs, upstreamIPs, serviceIPs = [] }: Target, ports: readonly Port[]): string[] {
  if (upstreamIPs === undefined && clusterIPs.length > 0) return clusterIPs;
  const isDirect = ports.every(({ protocol, upstreamIPs: lent }) => protocol === "none" && lent === undefined);
  return isDirect ? [...(upstreamIPs ?? serviceIPs)] : [];
}

/**
 * Names need no mapping if every web port refuses a header, apart from unclear answers: pods that are short-circuited
 * reach such a port as it is.
 */
function refusal({ name }: Target, web: readonly Port[], { answerOf, mapsAlways }: HeaderFacts): Reason | undefined {
  const answers = web.map((each) => (isFixed(each) ? undefined : answerOf(each.port)));
  const known = answers.filter((answer) => answer !== "unknown");
  const refuses = known.length > 0 && known.every((answer) => answer === "refuses-header");
  if (!refuses || mapsAlways) return undefined;
  const text =
    `its target ${name} refuses a PROXY header from the proxies. If the PROXY protocol is off there, pods need no ` +
    "mapping. Otherwise, add the proxies to its list of trusted addresses (docs/trust/README.md)";
  return { code: "header-not-expected", text };
}

/**
 * The text must not reveal the answer. A tenant chooses where its Service leads, and could scan what the proxies
 * reach.
 */
function headerUnknown({ name, upstreamIPs }: Target): Reason {
  const cure =
    upstreamIPs === undefined
      ? "the `protocol` of its configured ports decides it"
      : "the Service's annotation switchback.dev/proxy-protocol decides it";
  const unknown = `it is not known yet whether its target ${name} expects a PROXY header`;
  const text = `${unknown}, because no proxy has received a clear answer; ${cure}`;
  return { code: HEADER_UNKNOWN, text };
}

/**
 * What contradicts the answer of a port: the annotation that decides, or what another proxy sees. A provider's
 * annotation decides nothing once there is an answer. Ports that another Service lends are not judged, because they may
 * be another tenant's.
 */
export function contradictionOf(
  { upstream, ports }: Target,
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
