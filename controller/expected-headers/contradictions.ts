import type { Reason } from "#hostmap/types.ts";
import { answerText } from "#lib/documents/asked-text.ts";
import type { HeaderAnswer, PublishedAnswer } from "#lib/documents/header-questions.ts";
import type { AskableTarget } from "./decide-protocols.ts";

type Port = AskableTarget["ports"][number];

/** An answer at a port of a target, and the setting or answer that contradicts it. */
export interface HeaderContradiction {
  readonly target: string;
  readonly port: number;
  readonly service: { readonly namespace: string; readonly name: string };
  /** The time of the answer, in RFC 3339 format. */
  readonly at: string;
  readonly reason: Reason;
  /** Differs for another setting or answer, but not for another time. */
  readonly change: string;
}

/**
 * Returns what contradicts the answer of a port. Ports that another Service lends are not judged, because they may be
 * another tenant's.
 */
export function contradictionsOf({ name, upstream, ports }: AskableTarget, number: number, known: PublishedAnswer) {
  const port = ports.find((each) => each.port === number);
  if (port === undefined || port.upstreamIPs !== undefined || !("service" in upstream)) return [];
  const { service } = upstream;
  const of = { target: name, port: number, service, at: known.at };
  const subject = `Service ${service.namespace}/${service.name}, port ${number}: `;
  return [...byAnnotation(port, known), ...byOtherProxy(known)].map(
    ({ code, text, change }): HeaderContradiction => ({
      ...of,
      reason: { code, text: `${subject}${text}` },
      change: `${code} ${change}`,
    }),
  );
}

type Found = Reason & { readonly change: string };

function byAnnotation({ protocol, stated, says }: Port, { answer, at, by }: PublishedAnswer): Found[] {
  if (says === undefined || !isOpposite(protocol, answer)) return [];
  const decides = stated === "annotation" ? "the annotation decides" : "what was seen decides";
  const text = `its annotation ${says}, but it ${seenText(answer)} (seen at ${at} from ${by}); ${decides}`;
  return [{ code: "header-contradicted", text, change: `${says} ${answer}` }];
}

function byOtherProxy({ answer, at, by, other }: PublishedAnswer): Found[] {
  if (other === undefined) return [];
  const text =
    `it ${seenText(answer)} (seen at ${at} from ${by}), and shortly before it ${seenText(other.answer)} (seen at ` +
    `${other.at} from ${other.by}): it was changed in between, or it trusts only one of the two proxies`;
  return [{ code: "header-answers-differ", text, change: `${answer} ${other.answer}` }];
}

/**
 * Whether a port with this protocol cannot work. A port that accepts connections with or without a header always
 * works.
 */
function isOpposite(stated: Port["protocol"], answer: HeaderAnswer): boolean {
  switch (answer) {
    case "demands-v1":
      return stated !== "v1";
    case "demands-v2":
      return stated !== "v2";
    case "demands-either":
      return stated === "none";
    case "refuses-header":
      return stated !== "none";
    case "optional":
    case "unknown":
      return false;
  }
}

function seenText(answer: HeaderAnswer): string {
  const untrusted = answer === "refuses-header" ? ", or does not take one from the proxies" : "";
  return `${answerText(answer)}${untrusted}`;
}

/** Maximum number of contradictions per code in the status; the others are counted. */
const LISTED = 5;

export function contradictionWarnings(all: readonly HeaderContradiction[]): Reason[] {
  return [...Map.groupBy(all, ({ reason }) => reason.code)].flatMap(([code, some]) => {
    const more = some.length - LISTED;
    return [
      ...some.slice(0, LISTED).map(({ reason }) => reason),
      ...(more > 0 ? [{ code, text: `${more} more ports: \`asked\` of the targets in \`status -o json\`` }] : []),
    ];
  });
}
