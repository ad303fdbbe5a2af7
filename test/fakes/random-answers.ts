import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { createClient, type KubeClient } from "#lib/kube/client.ts";
import { pause } from "#lib/kube/time.ts";
import { createTransport } from "#lib/kube/transport.ts";
import { Random } from "../fuzz/random.ts";

/** Deadline of each request, and how much later it may end. A request without an answer takes the whole time. */
const TIMEOUT_MS = 250;
const LATE_MS = 1_000;
const TURN_MS = 50;
const CLOSED_MS = 10_000;
/** Number of parallel requests, which is more than the client's 16 connections for calls. */
const IN_FLIGHT = 24;
const PATH = "/api/v1/namespaces/shop/configmaps";
/** Time that a peer keeps a connection open and silent. It is longer than any request may take. */
const SILENT_MS = 2 * CLOSED_MS;

interface AnswersReport {
  readonly requests: number;
  /** Requests that ended more than a second after their deadline, each with its answer. */
  readonly late: readonly string[];
  /** Number of connections that are still open ten seconds after the client was closed. */
  readonly left: number;
}

/** Sends requests of all kinds to a peer until `isOver`. The peer returns random answers, sometimes byte by byte. */
export async function tryRandomAnswers(seed: number, isOver: (requests: number) => boolean): Promise<AnswersReport> {
  const random = new Random(seed);
  const answers = new Map<string, string>();
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).once("close", () => sockets.delete(socket));
    socket.on("data", (request) => {
      const id = /x-id=(\d+)/.exec(request.toString("latin1"))?.[1];
      const answer = randomAnswer(random);
      if (id !== undefined) answers.set(id, answer);
      void say(socket, answer, random);
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const client = clientOf(url);
  const late: string[] = [];
  let requests = 0;
  const work = async () => {
    while (!isOver(requests)) {
      const id = `${requests++}`;
      const [name, call] = random.pick(REQUESTS);
      const answered = new AbortController();
      const end = () => answered.abort();
      call(client, `${PATH}/x?x-id=${id}`).then(end, end);
      if (await isInTime(answered.signal)) answers.delete(id);
      else late.push(`${name} of ${JSON.stringify(answers.get(id)?.slice(0, 100))}`);
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, work));
  client.close();
  for (const end = performance.now() + CLOSED_MS; sockets.size > 0 && performance.now() < end; ) await delay(10);
  const left = sockets.size;
  for (const socket of sockets) socket.destroy();
  server.close();
  return { requests, late, left };
}

/**
 * Counts pauses of TURN_MS instead of the time that passes. If the machine stands still, that delays the request and
 * this count alike.
 */
async function isInTime(ended: AbortSignal): Promise<boolean> {
  for (let turns = (TIMEOUT_MS + LATE_MS) / TURN_MS; turns > 0 && !ended.aborted; turns -= 1) {
    await pause(TURN_MS, ended);
  }
  return ended.aborted;
}

function clientOf(server: URL): KubeClient {
  const access = { server, headers: {}, tls: {} };
  // After a 401, the client sends the request again with new access.
  const credentials = { current: async () => access, renew: async () => ({ ...access }) };
  return createClient(createTransport(credentials, "test"), { timeoutMs: TIMEOUT_MS });
}

const REQUESTS: readonly (readonly [string, (client: KubeClient, path: string) => Promise<unknown>])[] = [
  ["get", (client, path) => client.get(path)],
  ["list", (client, path) => client.list(path)],
  ["apply", (client, path) => client.apply(path, { a: 1 }, { fieldManager: "me" })],
  ["replace", (client, path) => client.replace(path, { a: 1 })],
  ["create", (client, path) => client.create(path, { a: 1 })],
  ["delete", (client, path) => client.delete(path)],
  ["raw", (client, path) => client.raw(path, { anyStatus: true })],
  [
    "watch",
    (client, path) => {
      const limits = { idleMs: TIMEOUT_MS / 2, openMs: TIMEOUT_MS / 2, maxMs: TIMEOUT_MS / 2 };
      return client.stream(path, {}, { ...limits, signal: new AbortController().signal, onLine: () => {} });
    },
  ],
];

const STATUSES = [100, 101, 102, 103, 199, 200, 200, 200, 201, 204, 301, 304, 400, 401, 404, 409, 410, 429, 500, 503];
const UPGRADE = "connection: upgrade\r\nupgrade: websocket\r\n";
const HEADERS = [
  UPGRADE,
  "connection: close\r\n",
  "connection: keep-alive\r\n",
  "content-length: 0\r\n",
  "content-length: 20\r\n",
  "content-length: 2\r\n",
  "transfer-encoding: chunked\r\n",
  "content-type: application/json\r\n",
  "retry-after: 0\r\n",
  "content-encoding: gzip\r\n",
  "trailer: x\r\n",
  "no colon\r\n",
  `x: ${"a".repeat(20_000)}\r\n`,
];
const BODIES = [
  "",
  "{}",
  "{}",
  '{"a":',
  "[]\n",
  "2\r\n{}\r\n0\r\n\r\n",
  "2\r\n{",
  "ffffffff\r\n",
  '{"items":[]}\n{"a":1}\n',
];

/** One to four responses. The last one may be cut off. */
function randomAnswer(random: Random): string {
  if (random.below(10) === 0) return `HTTP/1.1 101 x\r\n${UPGRADE}\r\n${random.pick(BODIES)}`;
  if (random.below(20) === 0) return random.pick(["", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x15\x03\x01\x00\x02", "x"]);
  let text = "";
  for (let left = 1 + random.below(4) * random.below(2); left > 0; left -= 1) {
    text += `HTTP/1.${random.pick(["1", "1", "1", "0"])} ${random.pick(STATUSES)} x\r\n`;
    for (let headers = random.below(4); headers > 0; headers -= 1) text += random.pick(HEADERS);
    text += `\r\n${random.pick(BODIES)}`;
  }
  return random.below(3) === 0 ? text.slice(0, random.below(text.length)) : text;
}

/**
 * Writes an answer, sometimes in small parts, which are single bytes if the answer is short. Then the peer ends,
 * resets or keeps the connection.
 */
async function say(socket: Socket, answer: string, random: Random): Promise<void> {
  const size = random.below(3) > 0 ? answer.length : Math.max(1, Math.floor(answer.length / 200));
  socket.setNoDelay(true);
  for (let at = 0; at < answer.length && !socket.destroyed; at += size) {
    socket.write(answer.slice(at, at + size), "latin1");
    if (random.below(10) === 0) await delay(random.below(3));
    else await new Promise(setImmediate);
  }
  const end = random.below(4);
  if (end === 0) socket.end();
  else if (end === 1) socket.destroy();
  else if (end === 2) setTimeout(() => socket.destroy(), SILENT_MS).unref();
}
