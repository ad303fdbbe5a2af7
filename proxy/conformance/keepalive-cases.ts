import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import type { Socket } from "node:net";
import { type Case, Rig, until } from "./rig.ts";
import { take, takeHeader } from "./streams.ts";

/** Different from the system's default of two hours, and long enough that no probe is sent while a case runs. */
const KEEPALIVE_MS = 500_000;
/** Minimum time that must be left when a case reads the timer. */
const LEAST_MS = KEEPALIVE_MS - 100_000;
/** The unit of timers in /proc/net/tcp (USER_HZ), regardless of the kernel's own tick. */
const TICK_MS = 10;
/** Fields of a line in /proc/net/tcp: both addresses, and the running timer with its time. */
const [LOCAL, REMOTE, TIMER] = [1, 2, 5];
const KEEPALIVE_TIMER = "02";

export const keepaliveCases: readonly Case[] = [
  [
    "has the kernel probe both sides of a silent connection after the keepalive time",
    async (make) => {
      await using rig = await Rig.start(make, { limits: { keepaliveMs: KEEPALIVE_MS } });
      const [client, upstream] = await greeted(rig);
      await until(() => probedIn(rig.port(), client.localPort) !== undefined, "probes towards the client");
      await until(() => probedIn(upstream.remotePort, rig.upstream.port) !== undefined, "probes towards the upstream");
      for (const left of [probedIn(rig.port(), client.localPort), probedIn(upstream.remotePort, rig.upstream.port)]) {
        assert.ok(left !== undefined && left > LEAST_MS && left <= KEEPALIVE_MS, `the first probe in ${left} ms`);
      }
    },
  ],

  [
    "has the kernel probe a client over IPv6 too",
    async (make) => {
      await using rig = await Rig.start(make, { address: "::1", limits: { keepaliveMs: KEEPALIVE_MS } });
      const [client] = await greeted(rig);
      await until(() => (probedIn(rig.port(), client.localPort) ?? 0) > LEAST_MS, "probes towards the client");
    },
  ],
];

/** A connection that has relayed a byte in each direction. */
async function greeted(rig: Rig): Promise<[client: Socket, upstream: Socket]> {
  const client = await rig.connect();
  client.write("x");
  const upstream = await rig.upstream.next();
  await takeHeader(upstream);
  upstream.write("y");
  await take(client, 1);
  return [client, upstream];
}

/**
 * Milliseconds until the kernel probes the peer of the socket with these two ports; undefined without keepalive, or
 * while another timer runs.
 */
function probedIn(localPort: number | undefined, remotePort: number | undefined): number | undefined {
  for (const file of ["tcp", "tcp6"]) {
    for (const line of readFileSync(`/proc/self/net/${file}`, "utf8").split("\n")) {
      const fields = line.trim().split(/\s+/);
      if (portOf(fields[LOCAL]) !== localPort || portOf(fields[REMOTE]) !== remotePort) continue;
      const [timer, ticks] = fields[TIMER]?.split(":") ?? [];
      return timer === KEEPALIVE_TIMER ? Number.parseInt(ticks ?? "", 16) * TICK_MS : undefined;
    }
  }
  return undefined;
}

/** The port in an address such as `0100007F:01BB`. */
function portOf(address: string | undefined): number {
  return Number.parseInt(address?.split(":")[1] ?? "", 16);
}
