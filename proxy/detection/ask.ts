import type { HeaderAnswer } from "#lib/documents/header-answers.ts";
import { DIAL_LIMITS, type Dial, type DialLimits, dialOnce, type Header, type Outcome, type Seen } from "./dial.ts";

/**
 * `name` is the server name for TLS. If the port passes TLS through, the handshake reaches a backend. `agent` is the
 * name of the asking component, a DNS label. With `.invalid`, it is the Host for HTTP.
 */
export type Question = Omit<Dial, "header" | "path">;

export interface Round {
  readonly answer: HeaderAnswer;
  readonly seen: Seen;
}

/** Path of the request. It explains the request to readers of the upstream's log. */
const PATH = "/.well-known/switchback-asks-for-proxy-protocol";

/**
 * Asks a port with three short connections at once: without a header, with v1, with v2. Takes at most `connectMs` and
 * `answerMs` together. Never throws: a failure is an outcome. The answer of a round that `signal` ended is `unknown`.
 *
 * HTTP: `HEAD` with a Host that nobody serves (`.invalid`, RFC 6761, 6.4). An ingress controller or its default
 * backend answers it. Only an object without a host, which matches every name, sends the request to its own backend;
 * `HEAD` is safe there (RFC 9110, 9.2.1). TLS: a handshake, and no data after it.
 */
export async function askRound(question: Question, limits: Partial<DialLimits> = {}): Promise<Round> {
  const dial = (header: Header) => askOnce(question, header, limits);
  const [none, v1, v2] = await Promise.all([dial("none"), dial("v1"), dial("v2")]);
  const seen: Seen = { none, v1, v2 };
  return { answer: limits.signal?.aborted ? "unknown" : answerOf(seen), seen };
}

/** Makes one connection of a round. Never throws. */
export function askOnce(question: Question, header: Header, limits: Partial<DialLimits> = {}): Promise<Outcome> {
  const name = question.speaks === "http" ? `${question.agent}.invalid` : question.name;
  return dialOnce({ ...question, name, header, path: PATH }, { ...DIAL_LIMITS, ...limits });
}

/** The header versions that the port accepts. */
export function takenVersions(seen: Partial<Seen>): ("v1" | "v2")[] {
  return (["v1", "v2"] as const).filter((version) => isTaken(seen[version], seen.none));
}

/** The answer that follows from the outcomes. A missing connection gives no information. */
export function answerOf(seen: Partial<Seen>): HeaderAnswer {
  const { none, v1, v2 } = seen;
  if (none === undefined || !isConnected(none)) return "unknown";
  const [version, other] = takenVersions(seen);
  if (none.kind === "answered") {
    if (version !== undefined) return "optional";
    return isRejected(v1) || isRejected(v2) ? "refuses-header" : "unknown";
  }
  if (version === undefined) return "unknown";
  return other === undefined ? `demands-${version}` : "demands-either";
}

/**
 * Whether the port accepts this header. If the request without a header is answered too, both answers must be equal.
 * Otherwise the backend may have parsed the header as a request and answered that.
 */
function isTaken(headed: Outcome | undefined, bare: Outcome | undefined): boolean {
  if (headed?.kind !== "answered") return false;
  return bare?.kind !== "answered" || bare.detail === headed.detail;
}

/** Whether the connection was established. */
export function isConnected(outcome: Outcome): boolean {
  return outcome.kind === "answered" || outcome.kind === "silent" || isRejected(outcome);
}

/** Whether the backend closed the connection without an answer, or misread its first bytes. */
function isRejected(outcome: Outcome | undefined): boolean {
  return outcome?.kind === "misread" || outcome?.kind === "closed";
}
