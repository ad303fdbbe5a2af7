import { connect, type Socket } from "node:net";
import { encodeHeader } from "../proxy-header.ts";
import { closed, type Header, type Outcome } from "./outcome.ts";
import { speakHttp } from "./speak-http.ts";
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
