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
  onOpen?: () => void;
  /** Called for every complete line. If it throws, the stream ends, and the call rejects with this error. */
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
  const signal = AbortSignal.any([outer, inner.signal]);
  const opening = setTimeout(() => {
    inner.abort(new SwitchbackError("kube-unreachable", `${what}: no response`));
    transport.dropIdle();
  }, options.openMs ?? DEFAULT_OPEN_MS);
  const read = async () => {
    const response = await transport.send({
      method: "GET",
      path,
      channel: "watch",
      ...(options.accept === undefined ? {} : { headers: { accept: options.accept } }),
      signal,
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
    return await unlessAborted(read(), signal);
  } catch (error) {
    throw signal.aborted ? signal.reason : unreachable(what, error);
  } finally {
    clearTimeout(opening);
    // Whatever happened, do not leave the connection partly read.
    inner.abort();
  }
}

async function readLines(response: IncomingMessage, options: StreamOptions): Promise<StreamEnd> {
  const lines = createLineSplitter(options.onLine);
  let isIdle = false;
  const idle = setTimeout(() => {
    isIdle = true;
    response.destroy();
  }, options.idleMs);
  response.setEncoding("utf8");
  try {
    for await (const chunk of response as AsyncIterable<string>) {
      idle.refresh();
      lines.push(chunk);
    }
  } catch (error) {
    if (!isIdle) throw error;
  } finally {
    clearTimeout(idle);
  }
  if (isIdle) return "idle";
  if (lines.rest() > 0) throw new Error("the response ended in the middle of a line");
  return "closed";
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
  return {
    push(chunk: string): void {
      const [first = "", ...others] = chunk.split("\n");
      open.push(first);
      length += first.length;
      for (const next of others) {
        const line = open.join("");
        open = [next];
        length = next.length;
        if (line !== "") onLine(line);
      }
      if (length > MAX_LINE_LENGTH)
        throw new SwitchbackError("data-corrupt", `a line is longer than ${MAX_LINE_LENGTH}`);
    },
    rest: () => length,
  };
}
