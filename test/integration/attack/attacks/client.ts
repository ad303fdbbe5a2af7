import assert from "node:assert/strict";
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { STATUS_KEY_HEADER, STATUS_PATH } from "#lib/documents/status-page.ts";
import type { Replica } from "../../system-options.ts";
import type { Attack } from "../attack.ts";
import { clientHello, flood, type Place } from "../flood.ts";
import type { Stage } from "../stage.ts";

/** A client elsewhere, and one that shares the API server's address (source NAT). */
const SOURCES = { "another address": "127.0.0.2", "the API server's own address": "127.0.0.1" } as const;

const WEBHOOK_FLOODS: readonly Attack[] = Object.entries(SOURCES).flatMap(([where, source]) => [
  {
    name: `silent connections from ${where}`,
    by: "client",
    run: async (stage) => {
      await flood(2_000, source, webhookOf(stage), () => {});
      return { tried: "2,000 connections to the webhook that say nothing", outcome: "reviews went on" };
    },
  },
  {
    name: `unfinished bodies from ${where}`,
    by: "client",
    run: async (stage) => {
      await flood(1_000, source, webhookOf(stage), sendUnfinished);
      return { tried: "1,000 reviews of 64 KiB that do not end", outcome: "reviews went on" };
    },
  },
  {
    name: `finished handshakes from ${where}`,
    by: "client",
    run: async (stage) => {
      const speak = (socket: Socket) => void secured(socket).write("P");
      await flood(700, source, webhookOf(stage), secured);
      await flood(700, source, webhookOf(stage), speak);
      return { tried: "700 connections without a request, 700 with a byte of one", outcome: "reviews went on" };
    },
  },
]);

/** Connects again and again from the API server's address until a request is answered, at most 20 times. */
async function connectAnew({ address, port }: Place): Promise<void> {
  for (let tries = 0; tries < 20; tries += 1) {
    const socket = secured(connectTcp({ host: address, port, localAddress: SOURCES["the API server's own address"] }));
    socket.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    const isAnswered = await new Promise((resolve) => {
      socket.once("data", () => resolve(true)).once("close", () => resolve(false));
    });
    socket.destroy();
    if (isAnswered) return;
  }
  assert.fail("no answer on a new connection of the API server");
}

const HEALTH_FLOODS: readonly Attack[] = (["controller", "webhook", "proxy", "agent"] as const).map((component) => ({
  name: `silent connections to the ${component}'s health port`,
  by: "client",
  run: async (stage) => {
    const replica = replicaOf(stage, component);
    await flood(4_000, "127.0.0.3", health(replica), () => {});
    return { tried: "4,000 connections that say nothing", outcome: "the liveness probe is answered" };
  },
}));

export const CLIENT_ATTACKS: readonly Attack[] = [
  ...WEBHOOK_FLOODS,
  ...HEALTH_FLOODS,
  {
    name: "handshakes without an end from another address",
    by: "client",
    run: async (stage) => {
      const [webhook, hello] = [webhookOf(stage), await clientHello()];
      let begun = 0;
      const begin = (socket: Socket) => {
        socket.once("data", () => {
          begun += 1;
        });
        socket.write(hello);
      };
      await flood(4_000, SOURCES["another address"], webhook, begin, () => connectAnew(webhook));
      assert.ok(begun < 1_000, `the webhook began ${begun} handshakes before that of the API server`);
      return { tried: "4,000 handshakes at once", outcome: "a new connection of the API server was served" };
    },
  },
  {
    name: "slow readers of pages",
    by: "client",
    run: async (stage) => {
      // The client sends the key, because answers without the key are short.
      const key = `${STATUS_KEY_HEADER}: ${await stage.system.readStatusKey()}`;
      const ask = (socket: Socket) => {
        socket.pause();
        socket.write(`GET ${STATUS_PATH} HTTP/1.1\r\nhost: a\r\n${key}\r\n\r\n`.repeat(20));
      };
      for (const component of ["controller", "webhook", "agent"] as const) {
        await flood(1_000, "127.0.0.4", health(replicaOf(stage, component)), ask);
      }
      return {
        tried: "1,000 clients each that ask for 20 pages and read none",
        outcome: "the liveness probe is answered",
      };
    },
  },
  {
    name: "bytes that are no protocol",
    by: "client",
    run: async (stage) => {
      const noise = Buffer.from(Array.from({ length: 4096 }, (_, index) => (index * 7919) % 251));
      for (const component of ["controller", "webhook", "proxy", "agent"] as const) {
        const replica = replicaOf(stage, component);
        await flood(200, "127.0.0.5", health(replica), (socket) => socket.write(noise));
        await flood(200, "127.0.0.5", replica, (socket) => socket.write(noise));
      }
      return { tried: "200 clients a port that write noise", outcome: "the liveness probe is answered" };
    },
  },
];

const health = ({ address, healthPort }: Replica): Place => ({ address, port: healthPort });

const webhookOf = (stage: Stage): Replica => replicaOf(stage, "webhook");

function replicaOf({ system }: Stage, component: "controller" | "webhook" | "proxy" | "agent"): Replica {
  const lists = {
    controller: system.controllers,
    webhook: system.webhooks,
    proxy: system.proxies,
    agent: system.agents,
  };
  const [replica] = lists[component];
  assert.ok(replica);
  return replica;
}

function secured(socket: Socket): TLSSocket {
  return connectTls({ socket, rejectUnauthorized: false }).on("error", () => {});
}

function sendUnfinished(socket: Socket): void {
  const head =
    "POST /mutate/pod HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 65536\r\n\r\n";
  secured(socket).write(`${head}${"{".repeat(65_535)}`);
}
