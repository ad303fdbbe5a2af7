import { connect, type Socket } from "node:net";
import { endpointText } from "../address.ts";
import { connectCause, type DialCause } from "../close-causes.ts";

interface ConnectOptions {
  readonly address: string;
  readonly port: number;
  /** 0: the kernel's timeout (about two minutes). */
  readonly timeoutMs: number;
  readonly keepaliveMs: number;
}

type ConnectResult =
  | { readonly connected: true; readonly socket: Socket; readonly seconds: number }
  | { readonly connected: false; readonly cause: DialCause | "local-limit"; readonly detail: string };

/**
 * Connects to one address. The returned function cancels the attempt. Otherwise `done` is called once, asynchronously.
 * A connected socket has no error listener.
 */
export function connectSocket(options: ConnectOptions, done: (outcome: ConnectResult) => void): () => void {
  const { address, port, timeoutMs, keepaliveMs } = options;
  const startedAt = performance.now();
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
    // Not a reset: it would wait for the connect that is cancelled here.
    socket.on("error", () => {}).destroy();
  };
  const onConnect = (): void => {
    settle();
    done({ connected: true, socket, seconds: (performance.now() - startedAt) / 1000 });
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
      done({
        connected: false,
        cause: "timeout",
        detail: `no answer from ${endpointText(address, port)} in ${timeoutMs} ms`,
      });
    }, timeoutMs);
  }
  return giveUp;
}
