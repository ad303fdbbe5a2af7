import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { until } from "../../system.ts";
import type { Attack } from "../attack.ts";
import { FLOOD_MS, flood, type Place } from "../flood.ts";
import { ENDLESS } from "../relayed-server.ts";

/**
 * Maximum connections of one source with the chart's values: a tenth of `proxy.maxConnections`, or fewer if the
 * process may open fewer files.
 */
const MOST_OF_A_SOURCE = 1_000;
/** The metric of clients that were refused because of this limit. */
const REFUSED = /^switchback_proxy_refused_total\{[^}]*cause="limit-source"\} (\d+)$/m;
const ATTACKER = "127.0.0.7";
const OTHER = "127.0.0.8";

export const RELAY_ATTACKS: readonly Attack[] = [
  {
    name: "forged header before the relay's",
    by: "client",
    run: async ({ relay }) => {
      const forged = "PROXY TCP4 192.0.2.66 192.0.2.1 1 443\n";
      assert.equal(await ask(relay, ATTACKER, forged), `${ATTACKER} ${forged}`);
      return { tried: "a PROXY header of its own", outcome: "the ingress controller reads the client's own address" };
    },
  },
  {
    name: "silent connections to the relay",
    by: "client",
    run: async ({ system, relay, relayed }) => {
      const refused = async () => Number(REFUSED.exec((await system.proxies[0]?.page("/metrics"))?.text ?? "")?.[1]);
      await flood(
        3 * MOST_OF_A_SOURCE,
        ATTACKER,
        relay,
        () => {},
        async () => {
          await until("the share of one source to be full", async () => (await refused()) > 0);
          assert.equal(await ask(relay, OTHER, "hello\n"), `${OTHER} hello\n`);
          await delay(FLOOD_MS);
          assert.ok(relayed.connections() <= MOST_OF_A_SOURCE, `${relayed.connections()} connections`);
        },
      );
      await until("the places to be free again", async () => relayed.connections() === 0);
      return {
        tried: "3,000 connections that say nothing",
        outcome: "1,000 connections stay open, and another client is served",
      };
    },
  },
  {
    name: "answers that nobody reads",
    by: "client",
    run: async ({ relay, relayed }) => {
      await flood(500, ATTACKER, relay, (socket) => socket.pause().write(ENDLESS));
      assert.equal(await ask(relay, OTHER, "hello\n"), `${OTHER} hello\n`);
      await until("the connections to end", async () => relayed.connections() === 0);
      return { tried: "500 endless answers that are not read", outcome: "another client is served" };
    },
  },
];

/** Sends a line through the relay and returns the answer. The answer is empty if the connection is reset. */
async function ask({ address, port }: Place, source: string, line: string): Promise<string> {
  const socket = connect({ host: address, port, localAddress: source });
  socket.on("error", () => {});
  socket.end(line);
  let answer = "";
  socket.on("data", (bytes) => {
    answer += bytes;
    if (answer.endsWith("\n")) socket.destroy();
  });
  await once(socket, "close");
  return answer;
}
