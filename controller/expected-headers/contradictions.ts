import type { Reason } from "#hostmap/types.ts";
import { answerText, type HeaderAnswer } from "#lib/documents/header-answers.ts";
import type { AskableTarget } from "./decide-protocols.ts";

type Port = AskableTarget["ports"][number];

/**
 * Returns what contradicts the answer of a port: an annotation, or what another proxy saw. Ports that another Service
 * lends are not judged, because they may be another tenant's.
 */
export function contradictionsOf(
  { upstream, ports }: AskableTarget,
  number: number,
  answer: HeaderAnswer,
  seen: ReadonlyMap<HeaderAnswer, readonly string[]>,
): Reason[] {
  const port = ports.find((each) => each.port === number);
  if (port === undefined || port.upstreamIPs !== undefined || !("service" in upstream)) return [];
  const { namespace, name } = upstream.service;
  const texts: Reason[] = [];
  if (port.says !== undefined && isOpposite(port.protocol, answer)) {
    const decides = port.stated === "annotation" ? "the annotation decides" : "what was seen decides";
    const text = `its annotation ${port.says}, but it ${answerText(answer)}${untrusted(answer)}; ${decides}`;
    texts.push({ code: "header-contradicted", text });
  }
  const clear = [...seen].filter(([each]) => each !== "unknown");
  if (clear.length > 1) {
    const all = clear.map(([each, proxies]) => `it ${answerText(each)} (seen from ${proxies.join(", ")})`);
    const text = `${all.join(", and ")}: it was just changed, or it trusts only some of the proxies`;
    texts.push({ code: "header-answers-differ", text });
  }
  return texts.map(({ code, text }) => ({ code, text: `Service ${namespace}/${name}, port ${number}: ${text}` }));
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

function untrusted(answer: HeaderAnswer): string {
  return answer === "refuses-header" ? ", or does not take one from the proxies" : "";
}

/** Maximum number of contradictions per code in the status; the others are counted. */
const LISTED = 5;

export function contradictionWarnings(all: readonly Reason[]): Reason[] {
  return [...Map.groupBy(all, ({ code }) => code)].flatMap(([code, some]) => {
    const more = some.length - LISTED;
    return [
      ...some.slice(0, LISTED),
      ...(more > 0 ? [{ code, text: `${more} more ports: \`asked\` of the targets in \`status -o json\`` }] : []),
    ];
  });
}
