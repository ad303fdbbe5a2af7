import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { BODIES, BODY, type Body } from "./backend.ts";

const LOCAL = "127.0.0.1";
const READ_BYTES = 256 * 1024;
const PATIENCE_MS = 60_000;

/** A client connection for workloads that wrk does not support; it checks every received byte. */
class Client {
  readonly socket: Socket;
  #head = "";
  #expected = 0;
  #received = -1;
  #settle: { resolve: () => void; reject: (error: Error) => void } | undefined;

  constructor(port: number) {
    const buffer = Buffer.allocUnsafe(READ_BYTES);
    const take = (size: number, bytes: Uint8Array): boolean => {
      this.#take(Buffer.from(bytes.buffer, bytes.byteOffset, size));
      return true;
    };
    this.socket = connect({ host: LOCAL, port, noDelay: true, onread: { buffer, callback: take } });
    this.socket.setTimeout(PATIENCE_MS, () => this.#fail(`nothing for ${PATIENCE_MS / 1_000} s`));
    this.socket.on("error", (error) => this.#fail(error.message));
    this.socket.on("end", () => this.#fail("an end"));
  }

  async connected(): Promise<void> {
    if (this.socket.connecting) await once(this.socket, "connect");
  }

  /** Resolves when the whole body was received and is correct; rejects otherwise. Call it again only after that. */
  get(body: Body, isLast: boolean): Promise<void> {
    this.#expected = BODIES[body];
    this.#received = -1;
    this.#head = "";
    return new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
      this.socket.write(`GET /${body} HTTP/1.1\r\nHost: bench\r\n${isLast ? "Connection: close\r\n" : ""}\r\n`);
    });
  }

  #take(chunk: Buffer): void {
    const payload = this.#received >= 0 ? chunk : this.#takeHead(chunk);
    if (payload === undefined) return;
    const fault = BODY.fault(this.#received, payload);
    this.#received += payload.length;
    if (fault !== undefined) this.#fail(`wrong bytes ${fault}`);
    else if (this.#received > this.#expected) this.#fail(`${this.#received} bytes for ${this.#expected}`);
    else if (this.#received === this.#expected) {
      this.#settle?.resolve();
      this.#settle = undefined;
    }
  }

  /** Returns the part of the chunk that belongs to the body, once the head is complete. */
  #takeHead(chunk: Buffer): Buffer | undefined {
    const before = this.#head.length;
    this.#head += chunk.toString("latin1");
    const end = this.#head.indexOf("\r\n\r\n");
    if (end === -1) return undefined;
    const head = this.#head.slice(0, end).toLowerCase();
    if (!head.startsWith("http/1.1 200 ") || !head.includes(`\r\ncontent-length: ${this.#expected}`)) {
      this.#fail(`a wrong answer: ${head.slice(0, 200)}`);
      return undefined;
    }
    this.#received = 0;
    return chunk.subarray(end + 4 - before);
  }

  #fail(text: string): void {
    this.#settle?.reject(new Error(text));
    this.#settle = undefined;
  }
}

/** Opens one connection and receives one response. */
export async function fetchOnce(port: number, body: Body): Promise<void> {
  const client = new Client(port);
  try {
    await client.get(body, true);
  } finally {
    client.socket.destroy();
  }
}

/** Opens `count` connections with one response each, at most `concurrency` at a time. */
export async function fetchMany(port: number, count: number, body: Body, concurrency: number): Promise<void> {
  let left = count;
  const worker = async (): Promise<void> => {
    for (; left > 0; left -= 1) await fetchOnce(port, body);
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
}

/** Opens connections that send nothing. */
export async function openIdle(port: number, count: number): Promise<Client[]> {
  const clients: Client[] = [];
  const BATCH = 100;
  while (clients.length < count) {
    const batch = Array.from({ length: Math.min(BATCH, count - clients.length) }, () => new Client(port));
    await Promise.all(batch.map((client) => client.connected()));
    clients.push(...batch);
  }
  return clients;
}

/**
 * Peers that request 1 MiB and read nothing for a second. Then one half reads all of it, and the other half resets
 * the connection.
 */
export class StalledPeers {
  readonly #port: number;
  readonly #running = new Set<Promise<void>>();
  #timer: NodeJS.Timeout | undefined;
  started = 0;

  constructor(port: number) {
    this.#port = port;
  }

  start(perSecond: number): void {
    this.#timer = setInterval(() => {
      const peer = this.#stall(this.started++ % 2 === 0);
      peer.catch(() => {});
      this.#running.add(peer);
    }, 1_000 / perSecond);
  }

  /** Resolves when all have ended; rejects if one of them has read a wrong byte. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#running);
  }

  async #stall(readsOn: boolean): Promise<void> {
    const client = new Client(this.#port);
    await client.connected();
    const answer = client.get("1m", true);
    answer.catch(() => {});
    client.socket.pause();
    await delay(1_000);
    if (readsOn) {
      client.socket.resume();
      await answer;
      client.socket.destroy();
    } else client.socket.resetAndDestroy();
  }
}
