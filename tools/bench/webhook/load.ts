import { setTimeout as delay } from "node:timers/promises";
import { connect, type TLSSocket } from "node:tls";
import type { ServerReady } from "./server.ts";

/** Length of the API server's uids, in bytes. */
const UID_BYTES = 36;
const UID_MARK = "@".repeat(UID_BYTES);
const HEAD_END = Buffer.from("\r\n\r\n");
const OK = "HTTP/1.1 200 ";
/** Maximum number of connections at a fixed rate. If none is free, a request waits for one, and the wait counts. */
const OPEN_CONNECTIONS = 64;

/**
 * A prepared admission review. Each request changes only the uid, because the client must cost less than the server.
 */
export interface Shot {
  readonly bytes: Buffer;
  readonly uidAt: number;
  /** The expected body and the position of its uid, from one verified answer. */
  expected: { readonly body: Buffer; readonly uidAt: number };
}

export function shotOf(object: object): Shot {
  const kind = { group: "", version: "v1", kind: "Pod" };
  const resource = { group: "", version: "v1", resource: "pods" };
  const groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"];
  const userInfo = { username: "system:serviceaccount:kube-system:replicaset-controller", groups };
  const options = { kind: "CreateOptions", apiVersion: "meta.k8s.io/v1" };
  const what = { kind, resource, requestKind: kind, requestResource: resource, namespace: "shop", operation: "CREATE" };
  const request = { uid: UID_MARK, ...what, userInfo, object, oldObject: null, dryRun: false, options };
  const body = JSON.stringify({ kind: "AdmissionReview", apiVersion: "admission.k8s.io/v1", request });
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
  return { bytes, uidAt: bytes.indexOf(UID_MARK), expected: { body: Buffer.alloc(0), uidAt: 0 } };
}

let sent = 0;

/** A keep-alive connection with one request at a time, like the API server's HTTP/1.1 connections. */
export class Connection {
  readonly #socket: TLSSocket;
  #received: Buffer = Buffer.alloc(0);
  #done: PromiseWithResolvers<Buffer> | undefined;

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

  static openAll(ready: ServerReady, count: number): Promise<Connection[]> {
    return Promise.all(Array.from({ length: count }, () => Connection.open(ready)));
  }

  /** Sends a shot for the first time, and keeps its answer as the expected one. Returns the review's response. */
  async learn(shot: Shot): Promise<{ readonly allowed: boolean; readonly patch: string }> {
    const [body, uid] = await this.#send(shot);
    const { response } = JSON.parse(body.toString("utf8"));
    if (response.uid !== uid) throw new Error("the answer has another uid");
    shot.expected = { body, uidAt: body.indexOf(uid) };
    return response;
  }

  /** Sends a shot. Throws unless the answer equals the expected one, with the new uid. Every byte is compared. */
  async shoot(shot: Shot): Promise<void> {
    const [body, uid] = await this.#send(shot);
    shot.expected.body.write(uid, shot.expected.uidAt, "latin1");
    if (!body.equals(shot.expected.body)) throw new Error(`another answer than before: ${body}`);
  }

  close(): void {
    this.#socket.destroy();
  }

  async #send(shot: Shot): Promise<[body: Buffer, uid: string]> {
    sent += 1;
    const uid = `00000000-0000-4000-8000-${String(sent).padStart(12, "0")}`;
    const bytes = Buffer.from(shot.bytes);
    bytes.write(uid, shot.uidAt, "latin1");
    this.#done = Promise.withResolvers<Buffer>();
    this.#socket.write(bytes);
    return [await this.#done.promise, uid];
  }

  #take(chunk: Buffer): void {
    this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
    const headEnd = this.#received.indexOf(HEAD_END);
    if (headEnd === -1) return;
    const head = this.#received.toString("latin1", 0, headEnd);
    const body = this.#received.subarray(headEnd + HEAD_END.length);
    const length = Number(/content-length: (\d+)/i.exec(head)?.[1]);
    if (body.length < length) return;
    this.#received = Buffer.alloc(0);
    if (body.length === length && head.startsWith(OK)) this.#done?.resolve(body);
    else this.#done?.reject(new Error(`not one answer with status 200: ${head}`));
  }
}

/** Answers per second if each connection sends its next request right after an answer, and their number. */
export async function closedLoop(
  connections: readonly Connection[],
  shots: readonly Shot[],
  ms: number,
): Promise<{ readonly perSecond: number; readonly answered: number }> {
  const started = performance.now();
  let answered = 0;
  const shootOn = async (connection: Connection, index: number): Promise<void> => {
    for (let turn = index; performance.now() < started + ms; turn += 1) {
      await connection.shoot(shots[turn % shots.length] as Shot);
      answered += 1;
    }
  };
  await Promise.all(connections.map(shootOn));
  return { perSecond: (answered * 1_000) / (performance.now() - started), answered };
}

/**
 * Latencies at a fixed rate, in milliseconds, independent of the answers. Each one starts at its planned time, so the
 * figures include the wait of all requests behind a stalled server.
 */
export async function openLoop(
  ready: ServerReady,
  shots: readonly Shot[],
  { rate, ms }: { readonly rate: number; readonly ms: number },
): Promise<readonly number[]> {
  const all = await Connection.openAll(ready, OPEN_CONNECTIONS);
  const free = [...all];
  const waiting: ((connection: Connection) => void)[] = [];
  const latencies: number[] = [];
  const one = async (due: number, shot: Shot): Promise<void> => {
    // The last used connection is the warmest, as in Go's http.Transport.
    const connection = free.pop() ?? (await new Promise<Connection>((resolve) => waiting.push(resolve)));
    await connection.shoot(shot);
    latencies.push(performance.now() - due);
    const next = waiting.shift();
    if (next === undefined) free.push(connection);
    else next(connection);
  };
  const running: Promise<void>[] = [];
  const started = performance.now();
  for (let index = 0; index < (rate * ms) / 1_000; index += 1) {
    const due = started + (index * 1_000) / rate;
    // A timer is up to a millisecond late, so the event loop covers the rest of the wait.
    if (due - performance.now() > 2) await delay(due - performance.now() - 1.5);
    while (performance.now() < due) await new Promise((resolve) => setImmediate(resolve));
    running.push(one(due, shots[index % shots.length] as Shot));
  }
  await Promise.all(running);
  for (const connection of all) connection.close();
  return latencies;
}
