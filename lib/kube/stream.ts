import type { IncomingMessage } from "node:http";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { readBody } from "./body.ts";
import { statusError, unreachable } from "./status.ts";
import { unlessAborted } from "./time.ts";
import type { Transport } from "./transport.ts";

/** `closed`: the server ended the stream cleanly. `idle`: no data for `idleMs`, so the connection may be dead. */
export type StreamEnd = "closed" | "idle";

export interface StreamOptions {
  signal: AbortSignal;
  /** Media type for the Accept header. Default: JSON. */
  accept?: string;
  /** Idle timeout, milliseconds. */
  idleMs: number;
  /** Timeout for the response headers, milliseconds. */
  openMs?: number;
  /** Ends the stream as `closed` after this long, even if the server does not. */
  maxMs?: number;
  onOpen?: () => void;
  /** Called for every complete line. If it throws, the stream ends and the call rejects with the same error. */
  onLine: (line: string) => void;
}

const DEFAULT_OPEN_MS = 30_000;

/**
 * Reads a response line by line until it ends. Rejects with `kube-unreachable` if the connection breaks, even in the
 * middle of a line. Also rejects with the server's error status, and with the signal's reason when it fires.
 */
export async function openStream(
  transport: Transport,
  what: string,
  path: string,
  options: StreamOptions,
): Promise<StreamEnd> {
  const { signal: outer } = options;
  outer.throwIfAborted();
  const inner = new AbortController();
  const abort = () => inner.abort(outer.reason);
  outer.addEventListener("abort", abort, { once: true });
  const opening = setTimeout(() => {
    inner.abort(new SwitchbackError("kube-unreachable", `${what}: no response`));
    transport.dropIdle();
  }, options.openMs ?? DEFAULT_OPEN_MS);
  const read = async () => {
    const response = await transport.send({
      method: "GET",
      path,
      channel: "watch",
      idempotent: true,
      ...(options.accept === undefined ? {} : { headers: { accept: options.accept } }),
      signal: inner.signal,
    });
    const status = response.statusCode ?? 0;
    if (status >= 400) {
      const body = await readBody(response, what, 1024 * 1024);
      throw statusError(what, status, body, response.headers["retry-after"]);
    }
    clearTimeout(opening);
    options.onOpen?.();
    return await readLines(response, options);
  };
  try {
    return await unlessAborted(read(), inner.signal);
  } catch (error) {
    if (error instanceof HandlerFailure) throw error.cause;
    throw inner.signal.aborted ? inner.signal.reason : unreachable(what, error);
  } finally {
    clearTimeout(opening);
    outer.removeEventListener("abort", abort);
    // Whatever happened, do not leave the connection partly read.
    inner.abort();
  }
}

/** Distinguishes an error of `onLine` from a connection error. */
class HandlerFailure extends Error {}

function readLines(response: IncomingMessage, options: StreamOptions): Promise<StreamEnd> {
  const lines = createLineSplitter(options.onLine);
  return new Promise<StreamEnd>((resolve, reject) => {
    const idle = setTimeout(() => settle(() => resolve("idle")), options.idleMs);
    const longest =
      options.maxMs === undefined ? undefined : setTimeout(() => settle(() => resolve("closed")), options.maxMs);
    const settle = (complete: () => void) => {
      clearTimeout(idle);
      clearTimeout(longest);
      response.removeListener("data", onData);
      complete();
    };
    const onData = (chunk: string) => {
      idle.refresh();
      try {
        lines.push(chunk);
      } catch (error) {
        settle(() => reject(new HandlerFailure("a line could not be processed", { cause: error })));
      }
    };
    response.setEncoding("utf8");
    response.on("data", onData);
    response.on("error", (error) => settle(() => reject(error)));
    response.on("end", () => {
      if (lines.rest() === 0) settle(() => resolve("closed"));
      else settle(() => reject(new Error("the response ended in the middle of a line")));
    });
    response.on("close", () => settle(() => reject(new Error("the connection was closed"))));
  });
}

/**
 * The API server cannot send a longer line. etcd accepts objects of up to 1.5 MiB. Their JSON has at most six times
 * as many bytes (`<` becomes `\u003c`).
 */
const MAX_LINE_LENGTH = 16 * 1024 * 1024;

/** Splits chunks of text into lines. Empty lines are skipped. `rest` is the length of the incomplete last line. */
export function createLineSplitter(onLine: (line: string) => void) {
  let open: string[] = [];
  let length = 0;

  function complete(end: string): string {
    const line = open.join("") + end;
    open = [];
    length = 0;
    return line;
  }

  return {
    push(chunk: string): void {
      let start = 0;
      for (let end = chunk.indexOf("\n"); end !== -1; end = chunk.indexOf("\n", start)) {
        const line = complete(chunk.slice(start, end));
        start = end + 1;
        if (line !== "") onLine(line);
      }
      open.push(chunk.slice(start));
      length += chunk.length - start;
      if (length > MAX_LINE_LENGTH)
        throw new SwitchbackError("data-corrupt", `a line is longer than ${MAX_LINE_LENGTH}`);
    },
    rest: () => length,
  };
}
