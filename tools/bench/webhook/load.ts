import { setTimeout as delay } from "node:timers/promises";
import { connect, type TLSSocket } from "node:tls";
import type { PodShape } from "./pods.ts";
import type { ServerReady } from "./server.ts";

/** Length of the API server's uids, in bytes. */
const UID_BYTES = 36;
const UID_MARK = "@".repeat(UID_BYTES);
const HEAD_END = Buffer.from("\r\n\r\n");

/**
 * A prepared admission review. Each request changes only the uid, because the client must cost less than the server.
 */
export interface Shot {
  readonly title: string;
  readonly bytes: Buffer;
  readonly uidAt: number;
  /** The expected response body and the position of its uid, learned from one verified response. */
  expected: { readonly body: Buffer; readonly uidAt: number } | undefined;
}

export function shotOf({ title, object }: PodShape): Shot {
  const body = JSON.stringify({
    kind: "AdmissionReview",
    apiVersion: "admission.k8s.io/v1",
    request: {
      uid: UID_MARK,
      kind: { group: "", version: "v1", kind: "Pod" },
      resource: { group: "", version: "v1", resource: "pods" },
      requestKind: { group: "", version: "v1", kind: "Pod" },
      requestResource: { group: "", version: "v1", resource: "pods" },
      namespace: "shop",
      operation: "CREATE",
      userInfo: {
        username: "system:serviceaccount:kube-system:replicaset-controller",
        uid: "0b6e3a55-6e34-4a53-a9c3-f3a0d4f3c0a1",
        groups: ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
      },
      object,
      oldObject: null,
      dryRun: false,
      options: { kind: "CreateOptions", apiVersion: "meta.k8s.io/v1" },
    },
  });
  const head = [
    "POST /mutate/namespace?timeout=2s HTTP/1.1",
    "Host: switchback-webhook.switchback-system.svc:443",
    "User-Agent: kube-apiserver-admission",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Accept: application/json, */*",
    "Content-Type: application/json",
    "Accept-Encoding: gzip",
  ].join("\r\n");
  const bytes = Buffer.from(`${head}\r\n\r\n${body}`);
  return { title, bytes, uidAt: bytes.indexOf(UID_MARK), expected: undefined };
}

/** Stores the response body that the server must send for a shot, from a response with `uid`. */
export function expect(shot: Shot, body: Buffer, uid: string): void {
  shot.expected = { body: Buffer.from(body), uidAt: body.indexOf(uid) };
}

let sent = 0;

/** Returns a new uid with 36 characters. */
export function nextUid(): string {
  sent += 1;
  return `00000000-0000-4000-8000-${String(sent).padStart(12, "0")}`;
}

/** A keep-alive connection with one request at a time, like the API server's HTTP/1.1 connections. */
export class Connection {
  readonly #socket: TLSSocket;
  #chunks: Buffer[] = [];
  #received = 0;
  #wanted = 0;
  #bodyAt = 0;
  #done: { resolve: (body: Buffer) => void; reject: (error: Error) => void } | undefined;

  private constructor(socket: TLSSocket) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.on("data", (chunk: Buffer) => this.#take(chunk));
    socket.on("error", (error) => this.#done?.reject(error));
    socket.on("close", () => this.#done?.reject(new Error("the server closed a connection")));
  }

  static async open({ port, ca }: ServerReady): Promise<Connection> {
    const socket = connect({ host: "127.0.0.1", port, ca, servername: "localhost" });
    await new Promise<void>((resolve, reject) => socket.once("secureConnect", resolve).once("error", reject));
    return new Connection(socket);
  }

  /** Sends a shot with a uid. Resolves to the response body; rejects if the status is not 200. */
  send(shot: Shot, uid: string): Promise<Buffer> {
    const bytes = Buffer.from(shot.bytes);
    bytes.write(uid, shot.uidAt, "latin1");
    this.#socket.write(bytes);
    return new Promise((resolve, reject) => {
      this.#done = { resolve, reject };
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #take(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#received += chunk.length;
    if (this.#wanted === 0) this.#readHead();
    if (this.#wanted === 0 || this.#received < this.#wanted) return;
    const done = this.#done;
    const answer = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks);
    const body = answer.subarray(this.#bodyAt);
    const extra = this.#received !== this.#wanted || !answer.subarray(0, 12).equals(OK);
    this.#chunks = [];
    this.#received = 0;
    this.#wanted = 0;
    this.#done = undefined;
    if (extra) done?.reject(new Error(`not one answer with status 200: ${answer.subarray(0, 200)}`));
    else done?.resolve(body);
  }

  #readHead(): void {
    const start = this.#chunks.length === 1 ? this.#chunks[0] : Buffer.concat(this.#chunks);
    const end = start?.indexOf(HEAD_END) ?? -1;
    if (start === undefined || end === -1) return;
    const length = /content-length: (\d+)/i.exec(start.toString("latin1", 0, end))?.[1];
    this.#bodyAt = end + HEAD_END.length;
    this.#wanted = this.#bodyAt + Number(length);
  }
}

const OK = Buffer.from("HTTP/1.1 200");

/** Whether the body equals the expected one with this uid. Every byte is compared. */
function isExpected({ expected }: Shot, body: Buffer, uid: string): boolean {
  if (expected === undefined || body.length !== expected.body.length) return false;
  const end = expected.uidAt + UID_BYTES;
  return (
    body.toString("latin1", expected.uidAt, end) === uid &&
    body.compare(expected.body, 0, expected.uidAt, 0, expected.uidAt) === 0 &&
    body.compare(expected.body, end, expected.body.length, end) === 0
  );
}

async function shoot(connection: Connection, shot: Shot): Promise<void> {
  const uid = nextUid();
  const body = await connection.send(shot, uid);
  if (!isExpected(shot, body, uid))
    throw new Error(`another answer than before to ${shot.title}: ${body.length} bytes`);
}

/** Requests per second that a server answers if each of `connections` sends its next request right after a response. */
export async function closedLoop(
  connections: readonly Connection[],
  shots: readonly Shot[],
  ms: number,
): Promise<{ perSecond: number; answered: number }> {
  const started = performance.now();
  const until = started + ms;
  let answered = 0;
  await Promise.all(
    connections.map(async (connection, index) => {
      for (let turn = index; performance.now() < until; turn += 1) {
        await shoot(connection, shots[turn % shots.length] as Shot);
        answered += 1;
      }
    }),
  );
  return { perSecond: (answered * 1000) / (performance.now() - started), answered };
}

/** Maximum number of connections of an open loop. If none is free, a request waits for one, and the wait counts. */
const OPEN_CONNECTIONS = 64;

/**
 * Latencies at a fixed rate, in milliseconds, independent of the responses. Each one starts at its planned time, so
 * the figures include the wait of all requests behind a stalled server.
 */
export async function openLoop(
  ready: ServerReady,
  shots: readonly Shot[],
  rate: number,
  ms: number,
): Promise<readonly number[]> {
  const free = await Promise.all(Array.from({ length: OPEN_CONNECTIONS }, () => Connection.open(ready)));
  const connections = [...free];
  const waiting: Array<(connection: Connection) => void> = [];
  const latencies: number[] = [];
  const one = async (due: number, shot: Shot): Promise<void> => {
    // The last used connection is the warmest, as in Go's http.Transport.
    const connection = free.pop() ?? (await new Promise<Connection>((resolve) => waiting.push(resolve)));
    await shoot(connection, shot);
    latencies.push(performance.now() - due);
    const next = waiting.shift();
    if (next === undefined) free.push(connection);
    else next(connection);
  };
  const running: Promise<void>[] = [];
  const started = performance.now();
  const total = Math.round((rate * ms) / 1000);
  for (let index = 0; index < total; ) {
    const due = started + (index * 1000) / rate;
    const early = due - performance.now();
    // A timer is up to a millisecond late, so the event loop covers the rest of the wait.
    if (early > 2) await delay(early - 1.5);
    else if (early > 0) await new Promise((resolve) => setImmediate(resolve));
    else {
      running.push(one(due, shots[index % shots.length] as Shot));
      index += 1;
    }
  }
  await Promise.all(running);
  for (const connection of connections) connection.close();
  return latencies;
}
