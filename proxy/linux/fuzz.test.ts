import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { FakeKernel, type FakeSocket } from "../../test/fakes/kernel.ts";
import type { EngineLimits } from "../engine.ts";
import { encodeSockaddr } from "./abi.ts";
import { newCounters, readCounters } from "./counters.ts";
import { newDials } from "./dials.ts";
import { Loop } from "./loop.ts";
import { newPlaces, Places } from "./places.ts";
import type { Command, WorkerListener } from "./plan.ts";

/*
 * The loop, its connections and pumps against a kernel in memory (test/fakes/kernel.ts): random clients and upstreams that send,
 * read, stop reading, end and reset whenever they like, on few descriptors that are used again at once. The kernel throws when a
 * descriptor is used that is not open, closed twice, or registered out of order.
 */
const LIMITS: EngineLimits = {
  maxConnections: 100,
  maxConnectionsPerSource: 100,
  connectTimeoutMs: 5000,
  idleTimeoutMs: 0,
  keepaliveMs: 0,
  firstBytesMs: 50,
  dropGraceMs: 0,
};

type Step = readonly [kind: string, which: number, amount: number];

/** The byte that a far end sends as its `index`th. */
function byteAt(seed: number, index: number): number {
  return (seed * 131 + index * 7 + (index >> 8) * 13 + (index >> 16) * 29) & 0xff;
}

/** One far end: what it has sent, and what it has got so far. */
class End {
  readonly socket: FakeSocket;
  readonly seed: number;
  sent = 0;
  got = 0;
  hasEnded = false;
  hasReset = false;

  constructor(socket: FakeSocket, seed: number) {
    this.socket = socket;
    this.seed = seed;
  }

  send(count: number): void {
    if (this.hasEnded || this.hasReset || this.socket.goneBy !== undefined) return;
    this.socket.send(Uint8Array.from({ length: count }, (_, index) => byteAt(this.seed, this.sent + index)));
    this.sent += count;
  }

  end(): void {
    if (this.hasReset || this.socket.goneBy !== undefined) return;
    this.hasEnded = true;
    this.socket.end();
  }

  reset(): void {
    if (this.socket.goneBy !== undefined) return;
    this.hasReset = true;
    this.socket.reset();
  }

  /** Checks what has arrived against what `from` has sent. */
  read(from: End, count: number): number {
    const bytes = this.socket.read(count);
    for (const byte of bytes) {
      if (byte !== byteAt(from.seed, this.got))
        assert.fail(`byte ${this.got} is ${byte}: lost, doubled or out of order`);
      this.got += 1;
    }
    assert.ok(this.got <= from.sent, "no more arrives than was sent");
    return bytes.length;
  }
}

class World {
  readonly kernel: FakeKernel;
  readonly loop: Loop;
  readonly clients: End[] = [];
  /** By client, once the upstream has read the header. */
  readonly upstreams = new Map<End, End>();
  readonly #commands: Command[] = [];
  readonly #listener: number;
  readonly #wake: number;
  readonly #counters = newCounters();
  readonly #places = newPlaces(LIMITS);
  readonly #headers = new Map<FakeSocket, string>();
  #known = 0;
  #now = 1000;

  constructor(chance: (below: number) => number) {
    this.kernel = new FakeKernel(chance);
    this.#listener = this.kernel.socket();
    this.kernel.bind(this.#listener);
    this.kernel.sockets.length = 0;
    this.#wake = this.kernel.eventfd();
    this.loop = new Loop({
      libc: this.kernel,
      wake: this.#wake,
      limits: LIMITS,
      places: this.#places,
      receive: () => this.#commands.shift(),
      reply: () => {},
      clock: () => this.#now,
    });
    this.order({ kind: "plan", id: 1, listeners: [this.#spec()] });
  }

  #spec(): WorkerListener {
    return {
      name: "target:443",
      target: "target",
      fd: this.#listener,
      localAddress: undefined,
      declaredPort: 443,
      protocol: "v1",
      tlvs: undefined,
      addresses: [{ text: "10.0.0.1", sockaddr: encodeSockaddr(Uint8Array.of(10, 0, 0, 1), 443), isSelf: false }],
      port: 443,
      unresolved: undefined,
      counters: this.#counters,
      dials: newDials(),
    };
  }

  order(command: Command): void {
    this.#commands.push(command);
    this.kernel.write(this.#wake);
    this.turns(2);
  }

  turns(count: number): void {
    for (let turn = 0; turn < count; turn += 1) this.loop.turn(0);
  }

  step([kind, which, amount]: Step): void {
    const client = this.clients[which % Math.max(1, this.clients.length)];
    const upstream = client && this.upstreams.get(client);
    const dialled = this.kernel.sockets[which % Math.max(1, this.kernel.sockets.length)];
    if (kind === "open" && this.clients.length < 12) {
      const socket = this.kernel.client(this.#listener, 4096 + amount);
      this.clients.push(new End(socket, this.clients.length * 2 + 1));
    } else if (kind === "turn") this.turns(1);
    else if (kind === "wait") {
      this.#now += amount % 100;
      this.turns(1);
    } else if (kind === "connect") dialled?.connected();
    else if (kind === "refuse" && dialled?.state === "connecting") dialled.reset();
    else if (kind === "clientSend") client?.send(amount);
    else if (kind === "clientEnd") client?.end();
    else if (kind === "clientReset") client?.reset();
    else if (kind === "upstreamSend") upstream?.send(amount);
    else if (kind === "upstreamEnd") upstream?.end();
    else if (kind === "upstreamReset") upstream?.reset();
    else if (kind === "read") this.readAll(amount);
    else if (kind === "late") this.#late();
    else if (kind === "starve") this.kernel.maxFiles = this.kernel.open().length + (amount % 3);
    else if (kind === "feed") this.kernel.maxFiles = 1024;
  }

  /** Longer than an upstream may take to answer, or the pause after a client could not be taken in. */
  #late(): void {
    this.#now += LIMITS.connectTimeoutMs + 1;
    this.turns(1);
  }

  /** All far ends read up to `count` bytes; how much that was. */
  readAll(count: number): number {
    let total = this.#meet();
    for (const client of this.clients) {
      const upstream = this.upstreams.get(client);
      if (upstream === undefined) continue;
      total += upstream.read(client, count) + client.read(upstream, count);
    }
    return total;
  }

  /** Upstream sockets read their header, byte by byte, so that what follows stays where it is. */
  #meet(): number {
    let total = 0;
    for (const socket of this.kernel.sockets) {
      if ([...this.upstreams.values()].some((end) => end.socket === socket)) continue;
      let header = this.#headers.get(socket) ?? "";
      for (let byte = socket.read(1); byte.length > 0; byte = socket.read(1)) {
        total += 1;
        header += String.fromCharCode(byte[0] ?? 0);
        if (header.endsWith("\r\n")) break;
      }
      this.#headers.set(socket, header);
      if (!header.endsWith("\r\n")) continue;
      const port = /^PROXY TCP4 192\.0\.2\.7 198\.51\.100\.9 (\d+) 443\r\n$/.exec(header)?.[1];
      const client = this.clients.find((end) => end.socket.port === Number(port));
      assert.ok(client !== undefined, `a header that no client has: ${JSON.stringify(header)}`);
      assert.ok(!this.upstreams.has(client), "a client is relayed once");
      this.#known += 1;
      this.upstreams.set(client, new End(socket, this.#known * 2 + 100));
    }
    return total;
  }

  /** Everybody reads, and time passes, until nothing moves any more. */
  settle(): void {
    for (let quiet = 0, rounds = 0; quiet < 6; rounds += 1) {
      assert.ok(rounds < 20_000, "comes to rest");
      for (const socket of this.kernel.sockets) socket.connected();
      this.turns(1);
      this.#now += 20;
      quiet = this.readAll(1_000_000) > 0 ? 0 : quiet + 1;
    }
  }

  /** The far ends that are left end too; then nothing may be left. */
  finish(): void {
    this.kernel.maxFiles = 1024;
    this.settle();
    for (const client of this.clients) client.end();
    this.settle();
    for (const [client, upstream] of this.upstreams) {
      const isUndisturbed = !client.hasReset && !upstream.hasReset && upstream.socket.goneBy === undefined;
      if (isUndisturbed)
        assert.ok(upstream.socket.finOut, "the client's FIN is passed on while the upstream may still answer");
    }
    for (const upstream of this.upstreams.values()) upstream.end();
    this.settle();
    this.#now += 40_000;
    this.turns(3);
    for (const client of this.clients) this.#checkEnd(client, this.upstreams.get(client));
    assert.equal(this.loop.open, 0, "no connection is left");
    assert.equal(new Places(this.#places, LIMITS).total(), 0);
    const stats = readCounters([this.#counters]);
    assert.equal(stats.active, 0);
    assert.ok(stats.accepted + stats.refused["local-limit"] >= this.clients.length, "every client is accounted for");
    this.order({ kind: "plan", id: 2, listeners: [] });
    this.#commands.push({ kind: "exit", id: 3 });
    this.kernel.write(this.#wake);
    this.loop.run();
    assert.deepEqual(this.kernel.open().sort(), ["event", "listener"], "every descriptor is closed");
  }

  #checkEnd(client: End, upstream: End | undefined): void {
    assert.ok(client.socket.goneBy !== undefined, "the client's socket is closed");
    if (upstream === undefined) {
      if (!client.hasReset) assert.equal(client.socket.goneBy, "reset", "a client that found no upstream is reset");
      return;
    }
    assert.ok(upstream.socket.goneBy !== undefined, "the upstream's socket is closed");
    if (client.hasReset) return;
    if (upstream.hasReset && !upstream.hasEnded) {
      assert.equal(client.socket.goneBy, "reset", "an upstream's reset is no finished answer");
      return;
    }
    assert.equal(client.got, upstream.sent, "all of the upstream's bytes have arrived");
    if (upstream.hasReset) return;
    assert.equal(upstream.got, client.sent, "all of the client's bytes have arrived");
    assert.deepEqual([client.socket.goneBy, upstream.socket.goneBy], ["fin", "fin"]);
  }
}

const KINDS = [
  "open",
  "turn",
  "turn",
  "turn",
  "wait",
  "connect",
  "connect",
  "clientSend",
  "clientSend",
  "upstreamSend",
];
const RARE = [
  "refuse",
  "clientEnd",
  "clientReset",
  "upstreamEnd",
  "upstreamReset",
  "upstreamSend",
  "read",
  "read",
  "late",
  "starve",
  "feed",
];
const steps = fc.array(
  fc.tuple(
    fc.constantFrom(...KINDS, ...RARE),
    fc.nat(11),
    fc.oneof(fc.nat(100), fc.nat(5000), fc.nat(200_000), fc.integer({ min: 200_000, max: 1_500_000 })),
  ),
  { minLength: 1, maxLength: 150, size: "max" },
);

const MEET: readonly Step[] = [
  ["turn", 0, 0],
  ["turn", 0, 0],
  ...Array.from({ length: 12 }, (_, which): Step => ["connect", which, 0]),
  ["turn", 0, 0],
  ["turn", 0, 0],
  ["wait", 0, 60],
  ["turn", 0, 0],
  ["read", 0, 10],
];

function play(script: readonly Step[], seed: number): void {
  let state = seed;
  const chance = (below: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  const world = new World(chance);
  for (const step of script) world.step(step);
  world.finish();
}

/** Streams that are spliced, stall with bytes in their pipe and are cut there, so that pipes and descriptors pass to others. */
const heavySteps = fc.array(
  fc.tuple(
    fc.constantFrom(
      "open",
      "clientSend",
      "upstreamSend",
      "upstreamSend",
      "clientReset",
      "upstreamReset",
      "turn",
      "turn",
      "read",
    ),
    fc.nat(11),
    fc.integer({ min: 30_000, max: 400_000 }),
  ),
  { minLength: 30, maxLength: 120, size: "max" },
);

test("what a pipe or a descriptor held for one connection never comes out at another", () => {
  fc.assert(
    fc.property(heavySteps, fc.nat(), (script, seed) => {
      // Every client is connected and known from the start.
      play(
        script.flatMap((step): Step[] => (step[0] === "open" ? [step, ["clientSend", step[1], 1], ...MEET] : [step])),
        seed,
      );
    }),
    { numRuns: 40 },
  );
});

test("no byte is lost, doubled or reordered, and every descriptor is closed once, whatever the far ends do", () => {
  fc.assert(
    fc.property(steps, fc.nat(), (script, seed) => play(script, seed)),
    { numRuns: 400 },
  );
});
