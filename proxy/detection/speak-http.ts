import type { Socket } from "node:net";
import { closed, type Outcome } from "./outcome.ts";
import { settle } from "./settle.ts";

/** Maximum bytes of an answer that are read. The last chunk may exceed this. */
const MAX_HEAD_BYTES = 1024;

/** Sends HEAD, which is cheap for a backend, and reads the status line. */
export function speakHttp(
  socket: Socket,
  header: Buffer,
  { name, path, agent }: { readonly name: string; readonly path: string; readonly agent: string },
  answerMs: number,
): Promise<Outcome> {
  const request = `HEAD ${path} HTTP/1.1\r\nHost: ${name}\r\nUser-Agent: ${agent}\r\nConnection: close\r\n\r\n`;
  let head = "";
  return settle(socket, answerMs, (done) => {
    socket.on("data", (chunk) => {
      head += chunk.toString("latin1");
      if (head.includes("\n") || head.length > MAX_HEAD_BYTES) done(classifyHttp(head));
    });
    socket.once("end", () => done(closed("the connection was closed without an answer")));
    socket.write(Buffer.concat([header, Buffer.from(request)]));
  });
}

/**
 * Statuses of a server that parses the header as a request line: it is no request (400), its method is
 * unknown (501), or it names no version of HTTP (505). RFC 9110, 15.5.1, 15.6.2 and 15.6.6.
 */
const MISREAD: ReadonlySet<string> = new Set(["400", "501", "505"]);

function classifyHttp(head: string): Outcome {
  const status = /^HTTP\/1\.[01] ([1-5]\d\d)(?= |\r?\n)/.exec(head)?.[1];
  if (status === undefined) return { kind: "misread", detail: "an answer that is not HTTP" };
  return { kind: MISREAD.has(status) ? "misread" : "answered", detail: `HTTP ${status}` };
}
