import { connect, type Socket } from "node:net";
import { connectCause, type DialCause } from "../close-causes.ts";

interface DialAttempt {
  readonly address: string;
  readonly port: number;
  /** 0: as long as the kernel tries (about two minutes). */
  readonly timeoutMs: number;
  readonly keepaliveMs: number;
}

type DialOutcome =
  | { readonly connected: true; readonly socket: Socket; readonly seconds: number }
  | { readonly connected: false; readonly cause: DialCause | "local-limit"; readonly detail: string };

/**
 * Opens one connection to one address. `done` is called once, later, unless the returned function was called first: it gives the
 * dial up. A connected socket comes without an error listener.
 */
export function dial(attempt: DialAttempt, done: (outcome: DialOutcome) => void): () => void {
  const { address, port, timeoutMs, keepaliveMs } = attempt;
  const begun = performance.now();
  const socket = connect({
    host: address,
    port,
    allowHalfOpen: true,
    noDelay: true,
    keepAlive: keepaliveMs > 0,
    keepAliveInitialDelay: keepaliveMs,
  });
  let timer: NodeJS.Timeout | undefined;
  const settle = (): void => {
    clearTimeout(timer);
    socket.off("connect", onConnect);
    socket.off("error", onError);
  };
  const giveUp = (): void => {
    settle();
    // destroy, not a reset: a reset waits for the connection that is being given up.
    socket.on("error", () => {}).destroy();
  };
  const onConnect = (): void => {
    settle();
    done({ connected: true, socket, seconds: (performance.now() - begun) / 1000 });
  };
  const onError = (error: NodeJS.ErrnoException): void => {
    giveUp();
    done({ connected: false, cause: connectCause(error.code), detail: error.message });
  };
  socket.on("connect", onConnect);
  socket.on("error", onError);
  if (timeoutMs > 0) {
    timer = setTimeout(() => {
      giveUp();
      done({ connected: false, cause: "timeout", detail: `no answer from ${address}:${port} in ${timeoutMs} ms` });
    }, timeoutMs);
  }
  return giveUp;
}
