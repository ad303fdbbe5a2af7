import type { Reason } from "#hostmap/types.ts";
import { answerText } from "#lib/documents/asked-text.ts";
import type { HeaderAnswer, PublishedAnswer } from "#lib/documents/header-questions.ts";
import type { AskableTarget } from "./decide-protocols.ts";

type Port = AskableTarget["ports"][number];

/** What was seen at a port of a target, and what says something else. */
export interface HeaderContradiction {
  readonly target: string;
  readonly port: number;
  readonly service: { readonly namespace: string; readonly name: string };
  /** When it was seen: RFC 3339. */
  readonly at: string;
  readonly reason: Reason;
  /** Changes with what is said and seen, and not with the time. */
  readonly change: string;
}

/** What contradicts the answer of a port. Of a port that another Service lends nothing: it may be another tenant's. */
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

/** Whether a port that is used as stated cannot work. One that takes a header or none works in either case. */
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

/** Contradictions that the status lists; the others are counted. */
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
