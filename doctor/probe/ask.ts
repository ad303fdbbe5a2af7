import { Resolver } from "node:dns/promises";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { encodeHeader } from "#proxy/proxy-header.ts";
import type { DialResult, ProbeDial, ProbeLookup, ProbeOutcome, ProbePlan, ProbeResult } from "./result.ts";

/** Time limits for a connection and for the answer after it, milliseconds. A slow backend may exceed them. */
const CONNECT_MS = 3000;
const ANSWER_MS = 10_000;
const LOOKUP_MS = 2000;
/** Maximum bytes of an answer that are read. */
const MAX_HEAD_BYTES = 1024;

/** Runs all dials and lookups of a plan concurrently. Never throws: failures are results. */
export async function executePlan({ dials, names, own }: ProbePlan): Promise<ProbeResult> {
  const find = async (name: string) => tryElsewhere(await lookUp(name), own);
  const [dialled, lookups] = await Promise.all([Promise.all(dials.map(runDial)), Promise.all(names.map(find))]);
  return { dials: dialled, lookups };
}

/** Whether pods get an answer at an address that is no load balancer's: a router may not forward what comes back. */
async function tryElsewhere(lookup: ProbeLookup, own: ProbePlan["own"]): Promise<ProbeLookup> {
  const { name, addresses } = lookup;
  const [address] = addresses;
  if (own === undefined || address === undefined || addresses.some((each) => own.includes(each))) return lookup;
  return { ...lookup, outcome: await outcomeOf({ address, port: 443, speaks: "tls", header: "none", name }) };
}

async function runDial(dial: ProbeDial): Promise<DialResult> {
  return { ...dial, outcome: await outcomeOf(dial) };
}

/** What a connection needs. */
type Dial = Pick<ProbeDial, "address" | "port" | "speaks" | "header" | "name">;

async function outcomeOf(dial: Dial): Promise<ProbeOutcome> {
  let socket: Socket;
  try {
    socket = await openConnection(dial);
  } catch (error) {
    return classifyDialError(error as NodeJS.ErrnoException);
  }
  try {
    const header = headerFor(dial, socket);
    return await (dial.speaks === "http" ? speakHttp(socket, header, dial.name) : speakTls(socket, header, dial.name));
  } finally {
    socket.destroy();
  }
}

function openConnection({ address, port }: Dial): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: address, port, noDelay: true });
    const timer = setTimeout(() => {
      socket.destroy();
      reject(Object.assign(new Error(`no connection within ${CONNECT_MS / 1000} s`), { code: "ETIMEDOUT" }));
    }, CONNECT_MS);
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

function classifyDialError({ code, message }: NodeJS.ErrnoException): ProbeOutcome {
  const kinds: Readonly<Record<string, ProbeOutcome["kind"]>> = { ECONNREFUSED: "refused", ETIMEDOUT: "timeout" };
  return { kind: kinds[code ?? ""] ?? "unreachable", detail: message };
}

function headerFor({ header }: Dial, { localAddress, localPort, remoteAddress, remotePort }: Socket): Buffer {
  if (header === "none") return Buffer.alloc(0);
  return encodeHeader(header, {
    source: { address: localAddress ?? "", port: localPort ?? 0 },
    destination: { address: remoteAddress ?? "", port: remotePort ?? 0 },
  });
}

/** Sends HEAD, which is cheap for a backend. */
function speakHttp(socket: Socket, header: Buffer, name: string): Promise<ProbeOutcome> {
  const request = `HEAD / HTTP/1.1\r\nHost: ${name}\r\nUser-Agent: switchback-doctor\r\nConnection: close\r\n\r\n`;
  let head = "";
  return settle(socket, (done) => {
    socket.on("data", (chunk) => {
      head += chunk.toString("latin1");
      if (head.includes("\n") || head.length > MAX_HEAD_BYTES) done(classifyHttp(head));
    });
    socket.once("end", () => done(closed("the connection was closed without an answer")));
    socket.write(Buffer.concat([header, Buffer.from(request)]));
  });
}

/** A server that parses the header as a request line answers 400 (RFC 9112, 3). */
function classifyHttp(head: string): ProbeOutcome {
  const status = /^HTTP\/\d\.\d (\d{3})/.exec(head)?.[1];
  if (status === undefined) return { kind: "misread", detail: "an answer that is not HTTP" };
  return status === "400" ? { kind: "misread", detail: "HTTP 400" } : { kind: "answered", detail: `HTTP ${status}` };
}

function speakTls(socket: Socket, header: Buffer, name: string): Promise<ProbeOutcome> {
  return settle(socket, (done) => {
    if (header.length > 0) socket.write(header);
    // The certificate does not matter: no data is sent.
    const tls = connectTls({ socket, servername: name, rejectUnauthorized: false });
    tls.once("secureConnect", () => {
      done({ kind: "answered", detail: "a TLS handshake" });
      tls.destroy();
    });
    tls.on("error", (error) => done(classifyTlsError(error)));
  });
}

/**
 * Alerts of a server that parsed the ClientHello (RFC 8446, 6.2). A server that parsed the header
 * as a ClientHello may send others.
 */
const CLIENT_HELLO_ALERTS =
  /UNRECOGNIZED_NAME|HANDSHAKE_FAILURE|CERTIFICATE_REQUIRED|ACCESS_DENIED|NO_APPLICATION_PROTOCOL/;

function classifyTlsError({ code = "", message }: NodeJS.ErrnoException): ProbeOutcome {
  if (CLIENT_HELLO_ALERTS.test(code)) return { kind: "answered", detail: `a TLS alert (${code})` };
  return code.startsWith("ERR_SSL") ? { kind: "misread", detail: `no TLS (${code})` } : closed(message);
}

function closed(detail: string): ProbeOutcome {
  return { kind: "closed", detail };
}

/** Resolves with the first outcome, or with `silent` after the time limit. */
function settle(socket: Socket, start: (done: (outcome: ProbeOutcome) => void) => void): Promise<ProbeOutcome> {
  return new Promise((resolve) => {
    const silent: ProbeOutcome = { kind: "silent", detail: `no answer within ${ANSWER_MS / 1000} s` };
    const timer = setTimeout(() => resolve(silent), ANSWER_MS);
    const done = (outcome: ProbeOutcome): void => {
      clearTimeout(timer);
      resolve(outcome);
    };
    socket.on("error", ({ code, message }: NodeJS.ErrnoException) => {
      done(closed(code === "ECONNRESET" ? "the connection was reset" : message));
    });
    start(done);
  });
}

/** Resolves a name by DNS, without the hosts file and the search list. */
async function lookUp(name: string): Promise<ProbeLookup> {
  const resolver = new Resolver({ timeout: LOOKUP_MS, tries: 2 });
  const [four, six] = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
  const addresses = [four, six].flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
  if (addresses.length > 0) return { name, addresses };
  const failure = four.status === "rejected" ? (four.reason as NodeJS.ErrnoException).code : undefined;
  return { name, addresses, failure: failure ?? "ENODATA" };
}
