import type { Socket } from "node:net";

/**
 * How a connection to a backend ended. `answered`: a valid HTTP or TLS answer. `misread`: the backend parsed the
 * bytes as something else (400, a protocol alert), or speaks another protocol. `closed`: it closed or reset the
 * connection without an answer. `silent`: no answer in time. `refused`, `timeout` and `unreachable`: there was no
 * connection.
 */
export const OUTCOME_KINDS = ["answered", "misread", "closed", "refused", "timeout", "silent", "unreachable"] as const;

export interface Outcome {
  readonly kind: (typeof OUTCOME_KINDS)[number];
  /** Readable text. It contains nothing of the answer except an HTTP status or the name of a TLS alert. */
  readonly detail: string;
}

/** The headers with which a connection may begin. */
export const HEADERS = ["none", "v1", "v2"] as const;
export type Header = (typeof HEADERS)[number];

/** The outcomes of connections to one port. */
export type Seen = Readonly<Record<Header, Outcome>>;

export function closed(detail: string): Outcome {
  return { kind: "closed", detail };
}

/**
 * Resolves with the first outcome. After the time limit, the outcome is what `late` returns or, if that is undefined,
 * `silent`.
 */
export function settle(
  socket: Socket,
  answerMs: number,
  start: (done: (outcome: Outcome) => void) => void,
  late: () => Outcome | undefined = () => undefined,
): Promise<Outcome> {
  return new Promise((resolve) => {
    const silent: Outcome = { kind: "silent", detail: `no answer within ${answerMs / 1000} s` };
    const timer = setTimeout(() => resolve(late() ?? silent), answerMs);
    const done = (outcome: Outcome): void => {
      clearTimeout(timer);
      resolve(outcome);
    };
    socket.on("error", ({ code, message }: NodeJS.ErrnoException) => {
      done(late() ?? closed(code === "ECONNRESET" ? "the connection was reset" : message));
    });
    start(done);
  });
}
