import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import type { Socket } from "node:net";
import { type Case, Rig, until } from "./rig.ts";
import { take, takeHeader } from "./streams.ts";

/** Far from the system's own two hours, and long enough that nothing is probed while a case runs. */
const KEEPALIVE_MS = 500_000;
/** What may be left of it when a case looks. */
const LEAST_MS = KEEPALIVE_MS - 100_000;
/** /proc/net/tcp counts in these (USER_HZ), whatever the kernel's own clock is. */
const TICK_MS = 10;
/** Its fields: both addresses, and which timer runs with its time. */
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
    "has a client over IPv6 probed too",
    async (make) => {
      await using rig = await Rig.start(make, { address: "::1", limits: { keepaliveMs: KEEPALIVE_MS } });
      const [client] = await greeted(rig);
      await until(() => (probedIn(rig.port(), client.localPort) ?? 0) > LEAST_MS, "probes towards the client");
    },
  ],
];

/** A connection over which a byte has gone each way. */
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
 * Milliseconds until the system probes the peer of the socket with these two ports; undefined if it is not to, or if another timer
 * runs at the moment.
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

/** Of `0100007F:01BB`. */
function portOf(address: string | undefined): number {
  return Number.parseInt(address?.split(":")[1] ?? "", 16);
}
