import type { IncomingMessage } from "node:http";
import { StringDecoder } from "node:string_decoder";
import { SwitchbackError } from "#lib/errors/errors.ts";

/** The response is longer than allowed. The rest of it was not read. */
export class TooLongError extends SwitchbackError {
  constructor(what: string, maxBytes: number) {
    super("data-corrupt", `${what}: the response is longer than ${maxBytes} bytes`);
  }
}

/**
 * Reads the whole body as text. Throws TooLongError if it is longer than `maxBytes`, and then closes the connection.
 * It decodes each chunk as it arrives, so that a large body is never in memory as bytes as well: V8 collects bytes
 * later than text.
 */
export async function readBody(response: IncomingMessage, what: string, maxBytes: number): Promise<string> {
  const decoder = new StringDecoder("utf8");
  const parts: string[] = [];
  let size = 0;
  for await (const part of response as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > maxBytes) throw new TooLongError(what, maxBytes);
    parts.push(decoder.write(part));
  }
  parts.push(decoder.end());
  return parts.join("");
}
