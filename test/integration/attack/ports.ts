import { once } from "node:events";
import { connect as connectTcp, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { connect as connectTls } from "node:tls";
import { mutatedText } from "../../fuzz/mutate.ts";
import { Random } from "../../fuzz/random.ts";
import { podObject } from "../objects.ts";
import type { Place } from "./flood.ts";
import { HOSTILE, reviewOf, type Stage } from "./stage.ts";

const CLIENTS = 20;
const ANSWER_MS = 300;
/** Address of a client that is neither the API server nor the kubelet. */
const SOURCE = "127.0.0.6";

const body = JSON.stringify(reviewOf(podObject(HOSTILE, "fuzzed")));
const REVIEW =
  `POST /mutate/pod HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n` +
  `${body}`;
const PAGES = ["/healthz", "/readyz", "/metrics", "/status", "/loaded", "/targets"].map(
  (path) => `GET ${path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer a.b.c\r\n\r\n`,
);
const CHUNKED = "POST /mutate/pod HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
const TLS_HELLO = "\u0016\u0003\u0001\u0000\u0005\u0001\u0000\u0000\u0001\u0003";
const SEEDS = [REVIEW, CHUNKED, TLS_HELLO, ...PAGES, "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET / HTTP/1.1\r\n\r\n"];

/**
 * Writes mutated bytes, plain and within TLS, until the time is over: to the ports of controllers, webhooks, proxies
 * and agents, and to the relay. Returns the number of connections.
 */
export async function fuzzPorts(stage: Stage, milliseconds: number, seed: number): Promise<number> {
  const { controllers, webhooks, proxies, agents } = stage.system;
  const replicas = [...controllers, ...webhooks, ...proxies, ...agents];
  const own = replicas.flatMap(({ address, port, healthPort }) =>
    [port, healthPort].map((each) => ({ address, port: each })),
  );
  const places: Place[] = [...own, stage.relay];
  const secure = new Set(webhooks.map(({ port }) => port));
  const random = new Random(seed);
  const deadline = performance.now() + milliseconds;
  let connections = 0;
  const client = async (): Promise<void> => {
    while (performance.now() < deadline) {
      connections += 1;
      const place = random.pick(places);
      await one(place, secure.has(place.port) && random.below(4) > 0, mutatedText(random.pick(SEEDS), random), random);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  return connections;
}

/** Opens one connection and writes the text in two pieces. Then waits for an answer or the end, at most ANSWER_MS. */
async function one({ address, port }: Place, isSecure: boolean, text: string, random: Random): Promise<void> {
  const plain = connectTcp({ host: address, port, localAddress: SOURCE });
  const socket: Socket = isSecure ? connectTls({ socket: plain, rejectUnauthorized: false }) : plain;
  for (const each of [plain, socket]) each.on("error", () => {});
  const closed = once(socket, "close").catch(() => {});
  const middle = random.below(text.length + 1);
  for (const piece of [text.slice(0, middle), text.slice(middle)]) socket.write(piece, "latin1");
  if (random.below(2) === 0) socket.end();
  await Promise.race([closed, once(socket, "data").catch(() => {}), delay(ANSWER_MS, undefined, { ref: false })]);
  socket.destroy();
  plain.destroy();
}
