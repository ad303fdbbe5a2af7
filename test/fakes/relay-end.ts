import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { parseHeader } from "#proxy/proxy-header-parse.ts";
import type { FakeSocket } from "./kernel-socket.ts";

/** A prime: buffer sizes are powers of two, so a stream that is shifted by less than this is detected at once. */
const PERIOD = 1_048_583;
const MAX_SLICE = 1024 * 1024;

/** The same bytes without any structure in every run. The start follows the end, so that a slice need not wrap. */
const TABLE = createHash("shake256", { outputLength: PERIOD }).update("a stream of bytes that are all known").digest();
const WRAPPED = Buffer.concat([TABLE, TABLE.subarray(0, MAX_SLICE)]);

/**
 * Bytes of the stream `seed` from `position` on, at most 1 MiB. A comparison with them detects lost, repeated,
 * reordered and foreign bytes at the speed of memcmp. Returns a view that must not be written to.
 */
function patternOf(seed: number, position: number, length: number): Buffer {
  const start = (seed + position) % PERIOD;
  return WRAPPED.subarray(start, start + length);
}

export const PROTOCOLS = ["v1", "v2", "none"] as const;
export type Protocol = (typeof PROTOCOLS)[number];

/** Addresses of the fake kernel's clients and listeners, and the port in the headers. */
const SOURCE = "192.0.2.7";
const DESTINATION = "198.51.100.9";
export const DECLARED_PORT = 443;

/** Number of TLVs in a v2 header: checksum and unique id. */
const V2_TLVS = 2;

/** First byte of the first client's stream. It is high enough that no client's stream begins like a header. */
const FIRST_CLIENT = 100;
export const MOST_CLIENTS = 40;
/** Distance in the pattern between the streams of different ends. */
const STREAM_DISTANCE = 4099;

/**
 * A remote end, with the bytes that it has sent and received so far. The first byte of a stream identifies its
 * sender.
 */
export class End {
  readonly socket: FakeSocket;
  readonly #first: number;
  /** The header protocol of a client's listener. Undefined for an upstream. */
  readonly protocol: Protocol | undefined;
  /** Set when one end has received a byte from the other end. */
  peer: End | undefined = undefined;
  sent = 0;
  got = 0;
  hasEnded = false;
  hasReset = false;
  /** Whether a drain has reset its connection. */
  wasCut = false;
  /**
   * Times: when it was accepted or dialed (`bornAt`), when the relay last read from it (`movedAt`), when it sent a
   * FIN (`endedAt`), when it was reset (`resetAt`), and when the relay closed it (`goneAt`).
   */
  bornAt: number | undefined = undefined;
  movedAt = 0;
  endedAt = 0;
  resetAt = 0;
  goneAt = 0;
  #seen = 0;
  #header: number[] | undefined;

  /** `index`: its position among the clients, or among the upstreams. */
  constructor(socket: FakeSocket, index: number, protocol?: Protocol) {
    this.socket = socket;
    this.#first = index + (protocol === undefined ? 0 : FIRST_CLIENT);
    this.protocol = protocol;
    this.#header = protocol === undefined ? [] : undefined;
  }

  get isGone(): boolean {
    return this.socket.goneBy !== undefined;
  }

  /** Whether this end can still act. */
  get isAlive(): boolean {
    return !this.isGone && !this.hasReset && this.socket.state === "open";
  }

  send(count: number): void {
    if (this.hasEnded || !this.isAlive) return;
    if (this.sent === 0 && count > 0) this.socket.send(Uint8Array.of(this.#first));
    const begun = Math.max(1, this.sent);
    this.socket.send(this.#bytes(begun, this.sent + count - begun));
    this.sent += count;
  }

  urge(): void {
    if (this.isAlive && !this.hasEnded) this.socket.urge();
  }

  end(now: number): void {
    if (!this.isAlive || this.hasEnded) return;
    this.hasEnded = true;
    this.endedAt = now;
    this.socket.end();
  }

  reset(now: number): void {
    if (!this.isAlive) return;
    this.hasReset = true;
    this.resetAt = now;
    this.socket.reset();
  }

  /** Records what the relay has done to this end since the last call. */
  observe(now: number): void {
    const { socket } = this;
    if (this.bornAt === undefined && (this.protocol === undefined || socket.port !== 0)) this.bornAt = now;
    if (socket.taken !== this.#seen) this.movedAt = now;
    this.#seen = socket.taken;
    if (this.isGone && this.goneAt === 0) this.goneAt = now;
  }

  /**
   * Reads at most `count` bytes and checks them against the peer. `others`: the possible peers. Returns the number of
   * bytes.
   */
  read(count: number, others: readonly End[]): number {
    if (this.#header !== undefined) return this.#readHeader(this.#header, others);
    const bytes = this.socket.read(count);
    const [first] = bytes;
    if (first === undefined) return 0;
    if (this.peer === undefined) this.#meet(others.find((other) => other.#first === first));
    this.#check(bytes);
    return bytes.length;
  }

  /** Reads one byte at a time, so that the bytes after the header stay in the socket. */
  #readHeader(header: number[], others: readonly End[]): number {
    const [byte] = this.socket.read(1);
    if (byte === undefined) return 0;
    header.push(byte);
    const bytes = Uint8Array.from(header);
    const bare = header.length > 1 ? undefined : others.find((end) => end.#first === byte);
    if (bare !== undefined) {
      assert.equal(bare.protocol, "none", "a client's bytes come after its header");
      this.#meet(bare);
      this.#header = undefined;
      this.#check(bytes);
      return 1;
    }
    const parsed = parseHeader(bytes);
    assert.notEqual(parsed.status, "invalid", `a header: ${JSON.stringify(String.fromCharCode(...header))}`);
    if (parsed.status !== "complete") return 1 + this.#readHeader(header, others);
    const { source, destination } = parsed.header.endpoints ?? {};
    const client = others.find((end) => end.socket.port === source?.port);
    assert.ok(client !== undefined, "the header matches a client");
    assert.equal(client.protocol, `v${parsed.header.version}`);
    assert.equal(parsed.header.tlvs.length, client.protocol === "v2" ? V2_TLVS : 0);
    assert.equal(source?.address, SOURCE);
    const address = client.socket.isNameless ? SOURCE : DESTINATION;
    assert.deepEqual(destination, { address, port: DECLARED_PORT });
    this.#meet(client);
    this.#header = undefined;
    return 1;
  }

  #meet(other: End | undefined): void {
    assert.ok(other !== undefined, "the bytes were sent by an end");
    if (this.peer === other) return;
    assert.ok(
      this.peer === undefined && other.peer === undefined,
      "a client is relayed once, an upstream has one client",
    );
    this.peer = other;
    other.peer = this;
  }

  /** The bytes of this end's stream. */
  #bytes(position: number, length: number): Buffer {
    return patternOf(this.#first * STREAM_DISTANCE, position, length);
  }

  #check(bytes: Uint8Array): void {
    const { peer } = this;
    assert.ok(peer !== undefined);
    const skipped = this.got === 0 ? 1 : 0;
    if (skipped > 0) assert.equal(bytes[0], peer.#first);
    const rest = bytes.subarray(skipped);
    assert.ok(peer.#bytes(this.got + skipped, rest.length).equals(rest), `at byte ${this.got}: other bytes`);
    this.got += bytes.length;
    assert.ok(this.got <= peer.sent, "no more arrives than was sent");
  }
}
