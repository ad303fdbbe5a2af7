import { connect, type Socket } from "node:net";
import { encodeHeader } from "../proxy-header.ts";
import { closed, type Header, type Outcome, settle } from "./outcome.ts";
import { speakTls } from "./speak-tls.ts";

/** One connection, and the request that it carries. */
export interface Dial {
  /** IP address or DNS name. */
  readonly host: string;
  readonly port: number;
  readonly speaks: "http" | "tls";
  readonly header: Header;
  /** Host header, or server name of the ClientHello. */
  readonly name: string;
  /** HTTP only. */
  readonly path: string;
  /** HTTP only: the User-Agent. */
  readonly agent: string;
}

export interface DialLimits {
  /** Limit for the connect, including the lookup of a DNS name, in milliseconds. */
  readonly connectMs: number;
  /** Limit for the answer after the connect, in milliseconds. A slow backend may exceed it. */
  readonly answerMs: number;
  /** Ends the connection early. The outcome is then `closed` or `unreachable`. */
  readonly signal?: AbortSignal | undefined;
}

export const DIAL_LIMITS: DialLimits = { connectMs: 3000, answerMs: 10_000 };
/** Maximum bytes of an answer that are read. The last chunk may exceed this. */
const MAX_HEAD_BYTES = 1024;
/**
 * Statuses of a server that parses the header as a request line: it is no request (400), its method is
 * unknown (501), or it names no version of HTTP (505). RFC 9110, 15.5.1, 15.6.2 and 15.6.6.
 */
const MISREAD: ReadonlySet<string> = new Set(["400", "501", "505"]);

/**
 * Connects, sends the header and the request in one write, and reads until it knows the outcome. Then closes the
 * connection. Never throws.
 */
export async function dialOnce(dial: Dial, limits: DialLimits = DIAL_LIMITS): Promise<Outcome> {
  let socket: Socket;
  try {
    socket = await openConnection(dial, limits);
  } catch (error) {
    return classifyDialError(error as NodeJS.ErrnoException);
  }
  try {
    const header = headerFor(dial, socket);
    const speak = dial.speaks === "http" ? speakHttp : speakTls;
    return await speak(socket, header, dial, limits.answerMs);
  } catch (error) {
    // A connection that is reset at once has no addresses for a header.
    return closed((error as Error).message);
  } finally {
    socket.destroy();
  }
}

function openConnection({ host, port }: Dial, { connectMs, signal }: DialLimits): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, noDelay: true, ...(signal && { signal }) });
    const timer = setTimeout(() => {
      socket.destroy();
      reject(Object.assign(new Error(`no connection within ${connectMs / 1000} s`), { code: "ETIMEDOUT" }));
    }, connectMs);
    socket.once("error", (error) => {
      clearTimeout(timer);
      reject(error);
    });
    socket.once("connect", () => {
      clearTimeout(timer);
      resolve(socket);
    });
  });
}

function classifyDialError({ code, message }: NodeJS.ErrnoException): Outcome {
  const kinds: Readonly<Record<string, Outcome["kind"]>> = { ECONNREFUSED: "refused", ETIMEDOUT: "timeout" };
  return { kind: kinds[code ?? ""] ?? "unreachable", detail: message };
}

function headerFor({ header }: Dial, { localAddress, localPort, remoteAddress, remotePort }: Socket): Buffer {
  if (header === "none") return Buffer.alloc(0);
  return encodeHeader(header, {
    source: { address: localAddress ?? "", port: localPort ?? 0 },
    destination: { address: remoteAddress ?? "", port: remotePort ?? 0 },
  });
}

/** Sends HEAD, which is cheap for a backend, and reads the status line. */
function speakHttp(socket: Socket, header: Buffer, { name, path, agent }: Dial, answerMs: number): Promise<Outcome> {
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

function classifyHttp(head: string): Outcome {
  const status = /^HTTP\/1\.[01] ([1-5]\d\d)(?= |\r?\n)/.exec(head)?.[1];
  if (status === undefined) return { kind: "misread", detail: "an answer that is not HTTP" };
  return { kind: MISREAD.has(status) ? "misread" : "answered", detail: `HTTP ${status}` };
}
