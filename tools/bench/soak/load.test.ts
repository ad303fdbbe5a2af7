import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { encodeHeader } from "#proxy/proxy-header.ts";
import { freePorts } from "#test/cluster/ports.ts";
import { Load, type Route } from "./load.ts";
import type { Plan, SessionFault } from "./session.ts";

/**
 * What a faulty proxy does to a chunk of one direction. `at` is the position of its first byte: chunk sizes depend on
 * how busy the machine is.
 */
type Damage = (chunk: Buffer, at: number) => Buffer;

/** Damages the chunk with the byte at `position`. */
const damageAt =
  (position: number, damage: (chunk: Buffer, index: number) => Buffer): Damage =>
  (chunk, at) =>
    at <= position && position < at + chunk.length ? damage(chunk, position - at) : chunk;

interface Faults {
  readonly upward?: Damage;
  readonly downward?: Damage;
  readonly sourcePort?: (port: number) => number;
  /** The relay turns the upstream's reset into a FIN to the client. */
  readonly finForReset?: boolean;
  /** The relay does not forward the upstream's FIN. */
  readonly swallowFin?: boolean;
}

const small = { send: 5_000, writeSize: 1_000, gapMs: 1, begin: "at-once", fin: "at-once", finDelayMs: 0 } as const;
const plan: Plan = { kind: "test", client: small, upstream: small };

/** Makes one connection through a relay with these faults. Returns the faults that were found. */
async function faultsOf(faults: Faults, tried: Plan = plan): Promise<string[]> {
  const [upstreamPort = 0] = await freePorts(1);
  const sockets: Socket[] = [];
  const relay = createServer({ allowHalfOpen: true }, (client) => {
    const upstream = connect({ host: "127.0.0.1", port: upstreamPort, allowHalfOpen: true });
    sockets.push(client, upstream);
    const source = { address: "127.0.0.2", port: (faults.sourcePort ?? ((port) => port))(client.remotePort ?? 0) };
    upstream.write(encodeHeader("v1", { source, destination: { address: "127.0.0.1", port: 443 } }));
    let [ups, downs] = [0, 0];
    client.on("data", (chunk: Buffer) => {
      upstream.write(faults.upward?.(chunk, ups) ?? chunk);
      ups += chunk.length;
    });
    upstream.on("data", (chunk: Buffer) => {
      client.write(faults.downward?.(chunk, downs) ?? chunk);
      downs += chunk.length;
    });
    client.on("end", () => upstream.end());
    upstream.on("end", () => faults.swallowFin || client.end());
    client.on("error", () => upstream.resetAndDestroy());
    upstream.on("error", () => (faults.finForReset ? client.end() : client.resetAndDestroy()));
  });
  relay.listen(0, "127.0.0.1");
  await once(relay, "listening");
  const route: Route = {
    name: "test",
    protocol: "v1",
    listenPort: (relay.address() as AddressInfo).port,
    declaredPort: 443,
    upstreamHost: "127.0.0.1",
    upstreamPort,
    weight: 1,
  };
  const found: SessionFault[] = [];
  const onFault = (fault: SessionFault): void => void found.push(fault);
  // A different source port for each test, because the port of an earlier test is in TIME_WAIT.
  const load = new Load({
    routes: [route],
    rate: 1,
    seed: 1,
    hasIpv6: false,
    firstSource: upstreamPort % 14_000,
    onFault,
  });
  await load.listen();
  const session = load.begin(tried);
  for (let wait = 0; wait < 100 && !session.isClosed && found.length === 0; wait += 1) await delay(20);
  if (!session.isClosed) session.stuck(2);
  await load.close();
  for (const socket of sockets) socket.destroy();
  relay.close();
  return found.map(({ text }) => text);
}

test("a correct relay has no faults", async () => {
  assert.deepEqual(await faultsOf({}), []);
});

const resetting: Plan = { ...plan, upstream: { ...small, reset: { sent: 2_000, received: 0, ms: 0 } } };

test("a forwarded reset is not a fault", async () => {
  assert.deepEqual(await faultsOf({}, resetting), []);
});

const cases: readonly (readonly [string, Faults, RegExp, Plan?])[] = [
  [
    "a byte lost upwards",
    {
      upward: damageAt(1_000, (chunk, index) => Buffer.concat([chunk.subarray(0, index), chunk.subarray(index + 1)])),
    },
    /upstream: wrong bytes/,
  ],
  [
    "a chunk doubled downwards",
    { downward: damageAt(1_000, (chunk) => Buffer.concat([chunk, chunk])) },
    /client: wrong bytes/,
  ],
  [
    "the last byte lost",
    { downward: damageAt(4_999, (chunk) => chunk.subarray(0, -1)) },
    /client: (a FIN after 4999 of 5000 bytes|wrong bytes)/,
  ],
  ["another's source", { sourcePort: (port) => port - 1 }, /names no client of ours/],
  ["a reset told as an end", { finForReset: true }, /client: a FIN that the other end has not sent/, resetting],
  ["an end that is not passed on", { swallowFin: true }, /nothing moves for 2 s/],
];
for (const [title, faults, expected, tried] of cases) {
  test(`${title} is found`, async () => {
    const found = await faultsOf(faults, tried);
    assert.match(found.join("\n"), expected);
  });
}
