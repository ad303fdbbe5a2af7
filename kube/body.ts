import type { IncomingMessage } from "node:http";
import { SwitchbackError } from "../errors/errors.ts";

/** Reads the whole body as text. Throws `data-corrupt` if it is longer than `maxBytes`. */
export async function readBody(response: IncomingMessage, what: string, maxBytes: number): Promise<string> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of response as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > maxBytes)
      throw new SwitchbackError("data-corrupt", `${what}: the response is longer than ${maxBytes} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString("utf8");
}
