import type { Socket } from "node:net";
import { closed, type Outcome } from "./outcome.ts";

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
