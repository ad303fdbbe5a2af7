import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { Duplex } from "node:stream";
import { connect as connectTls, createSecureContext } from "node:tls";
import { encodeHeader } from "../proxy-header.ts";

/**
 * How a connection to a backend ended. `answered`: a valid HTTP or TLS answer. `misread`: the backend parsed the
 * bytes as something else (400, a protocol alert), or speaks another protocol. `closed`: it closed or reset the
 * connection without an answer. `silent`: no answer in time. `refused`, `timeout` and `unreachable`: there was no
 * connection.
 */
export const OUTCOME_KINDS = ["answered", "misread", "closed", "refused", "timeout", "silent", "unreachable"] as const;

export interface Outcome {
  readonly kind: (typeof OUTCOME_KINDS)[number];
  /** Readable text. It contains nothing of the answer except an HTTP status or the name of a TLS alert. */
  readonly detail: string;
}

/** The headers with which a connection may begin. */
export const HEADERS = ["none", "v1", "v2"] as const;
export type Header = (typeof HEADERS)[number];

/** The outcomes of connections to one port. */
export type Seen = Readonly<Record<Header, Outcome>>;

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

/** Maximum bytes of a handshake that are read. A chain of certificates has a few thousand. */
const MAX_HANDSHAKE_BYTES = 64 * 1024;
/** A record's head, and the type of the handshake message in it (RFC 8446, 5.1 and 4). */
const FIRST_BYTES = 6;
const HANDSHAKE_RECORD = 22;
const TLS_MAJOR_VERSION = 3;
const SERVER_HELLO = 2;
const HANDSHAKE: Outcome = { kind: "answered", detail: "a TLS handshake" };

/**
 * Created once, because it costs as much CPU as a handshake. Without the large key share of post-quantum groups, a
 * header and the ClientHello after it fit in one segment.
 */
const CONTEXT = createSecureContext({ ca: [], ecdhCurve: "X25519:P-256:P-384:P-521" });

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
    const speak = dial.speaks === "http" ? speakHttp : speakTls;
    return await speak(socket, headerFor(dial, socket), dial, limits.answerMs);
  } catch (error) {
    // A connection that is reset at once has no addresses for a header.
    return closed((error as Error).message);
  } finally {
    socket.destroy();
  }
}

async function openConnection({ host, port }: Dial, { connectMs, signal }: DialLimits): Promise<Socket> {
  const socket = connect({ host, port, noDelay: true, timeout: connectMs, ...(signal && { signal }) });
  const error = Object.assign(new Error(`no connection within ${connectMs / 1000} s`), { code: "ETIMEDOUT" });
  socket.once("timeout", () => socket.destroy(error));
  await once(socket, "connect");
  socket.setTimeout(0);
  return socket;
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

/**
 * Makes a TLS handshake without any data after it. A ServerHello counts as an answer, whatever follows, because no
 * server sends it in reply to a header. So a server that demands a client certificate has also answered.
 */
function speakTls(socket: Socket, header: Buffer, { name }: Dial, answerMs: number): Promise<Outcome> {
  let first = Buffer.alloc(0);
  let received = 0;
  const answered = (): Outcome | undefined => (isServerHello(first) ? HANDSHAKE : undefined);
  const start = (done: (outcome: Outcome) => void): void => {
    const wire = wireOf(socket, header);
    socket.on("data", (chunk: Buffer) => {
      received += chunk.length;
      if (first.length < FIRST_BYTES) first = Buffer.concat([first, chunk.subarray(0, FIRST_BYTES)]);
      if (received <= MAX_HANDSHAKE_BYTES) wire.push(chunk);
      else done(answered() ?? { kind: "misread", detail: "an answer that is not TLS" });
    });
    socket.once("end", () => wire.push(null));
    // The certificate does not matter: no data is sent.
    const tls = connectTls({ socket: wire, servername: name, rejectUnauthorized: false, secureContext: CONTEXT });
    socket.once("close", () => tls.destroy());
    // Sends the end of the handshake before it closes the connection, so that the server logs no error.
    tls.once("secureConnect", () => tls.end(() => done(HANDSHAKE)));
    tls.on("error", (error) => done(answered() ?? classifyTlsError(error)));
  };
  return settle(socket, answerMs, start, answered);
}

/** The connection as TLS uses it. The header and the ClientHello are sent in one write. */
function wireOf(socket: Socket, header: Buffer): Duplex {
  let before = header;
  const wire = new Duplex({
    read: () => {},
    write: (chunk: Buffer, _encoding, next) => {
      socket.write(Buffer.concat([before, chunk]), next);
      before = Buffer.alloc(0);
    },
    final: (next) => socket.end(next),
  });
  return wire.on("error", () => {});
}

/** Whether the bytes begin with a ServerHello. An echoed ClientHello is not one. */
function isServerHello(first: Buffer): boolean {
  return first[0] === HANDSHAKE_RECORD && first[1] === TLS_MAJOR_VERSION && first[5] === SERVER_HELLO;
}

/**
 * Alerts of a server that parsed the ClientHello (RFC 8446, 6.2). A server that parsed the header
 * as a ClientHello may send others. Go's TLS sends `internal_error` when it has no certificate for a name.
 */
const CLIENT_HELLO_ALERTS =
  /UNRECOGNIZED_NAME|HANDSHAKE_FAILURE|CERTIFICATE_REQUIRED|ACCESS_DENIED|NO_APPLICATION_PROTOCOL|INTERNAL_ERROR/;

function classifyTlsError({ code = "", message }: NodeJS.ErrnoException): Outcome {
  if (CLIENT_HELLO_ALERTS.test(code)) return { kind: "answered", detail: `a TLS alert (${code})` };
  return code.startsWith("ERR_SSL") ? { kind: "misread", detail: `no TLS (${code})` } : closed(message);
}

function closed(detail: string): Outcome {
  return { kind: "closed", detail };
}

/**
 * Resolves with the first outcome. After the time limit, the outcome is what `late` returns or, if that is undefined,
 * `silent`.
 */
function settle(
  socket: Socket,
  answerMs: number,
  start: (done: (outcome: Outcome) => void) => void,
  late: () => Outcome | undefined = () => undefined,
): Promise<Outcome> {
  return new Promise((resolve) => {
    const silent: Outcome = { kind: "silent", detail: `no answer within ${answerMs / 1000} s` };
    const timer = setTimeout(() => resolve(late() ?? silent), answerMs);
    const done = (outcome: Outcome): void => {
      clearTimeout(timer);
      resolve(outcome);
    };
    socket.on("error", ({ code, message }: NodeJS.ErrnoException) => {
      done(late() ?? closed(code === "ECONNRESET" ? "the connection was reset" : message));
    });
    start(done);
  });
}
