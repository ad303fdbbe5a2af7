import { createHash, randomFillSync } from "node:crypto";
import { once } from "node:events";
import type { Socket } from "node:net";
import { type ParsedHeader, parseHeader } from "../proxy-header-parse.ts";
import { soon } from "./rig.ts";

/** How a socket's reading side ended (a FIN or an errno), and all bytes that came before. */
export interface Ending {
  readonly how: string;
  readonly bytes: Buffer;
}

/** Reads a socket to its end. */
export function endOf(socket: Socket): Promise<Ending> {
  const chunks: Buffer[] = [];
  const ended = new Promise<Ending>((resolve) => {
    const settle = (how: string): void => resolve({ how, bytes: Buffer.concat(chunks) });
    socket.on("data", (chunk: Buffer) => chunks.push(chunk));
    socket.once("end", () => settle("FIN"));
    socket.once("error", (error: NodeJS.ErrnoException) => settle(error.code ?? error.message));
    socket.once("close", () => settle("closed"));
    if (socket.errored !== null) settle((socket.errored as NodeJS.ErrnoException).code ?? "error");
    socket.resume();
  });
  return soon(ended, "a stream to end");
}

/** Reads the first `count` bytes of a socket. Later bytes stay in it. */
export async function take(socket: Socket, count: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let have = 0;
  while (have < count) {
    const chunk = (await firstChunk(socket)).subarray();
    chunks.push(chunk);
    have += chunk.length;
  }
  const all = Buffer.concat(chunks);
  if (all.length > count) socket.unshift(all.subarray(count));
  return all.subarray(0, count);
}

/** The next chunk, as returned by one read. */
export async function firstChunk(socket: Socket): Promise<Buffer> {
  const chunk = once(socket, "data");
  socket.resume();
  const [bytes] = (await soon(chunk, "bytes")) as [Buffer];
  socket.pause();
  return bytes;
}

/** Reads the PROXY header. Payload that came with it stays in the socket. `alone`: no payload came with it. */
export async function takeHeader(socket: Socket): Promise<ParsedHeader & { alone: boolean }> {
  let bytes = Buffer.alloc(0);
  for (;;) {
    bytes = Buffer.concat([bytes, await firstChunk(socket)]);
    const result = parseHeader(bytes);
    if (result.status === "invalid")
      throw new Error(`${result.reason.text}: ${JSON.stringify(bytes.toString("latin1"))}`);
    if (result.status === "complete") {
      const rest = bytes.subarray(result.length);
      if (rest.length > 0) socket.unshift(rest);
      return { ...result.header, alone: rest.length === 0 };
    }
  }
}

/** `length` random bytes, not a repeated pattern. */
export function randomBytes(length: number): Buffer {
  return randomFillSync(Buffer.allocUnsafe(length));
}

export function digest(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** Writes all of `bytes` in pieces of `size`, waiting for `drain` if needed. */
export async function send(socket: Socket, bytes: Buffer, size = 64 * 1024): Promise<void> {
  for (let offset = 0; offset < bytes.length; offset += size) {
    if (!socket.write(bytes.subarray(offset, offset + size))) await once(socket, "drain");
  }
}

/** Bytes of a socket's writer that the kernel has accepted. */
export function takenFrom(socket: Socket): number {
  return socket.bytesWritten - socket.writableLength;
}
