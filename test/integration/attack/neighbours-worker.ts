import { once } from "node:events";
import { Agent, request } from "node:https";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";
import type { LoadOptions, LoadReport } from "./neighbours.ts";

/** The API server's timeout for calls of the webhook, as the chart sets it. */
const REQUEST_TIMEOUT_MS = 2_000;

const options = workerData as LoadOptions;
const agent = new Agent({ keepAlive: true, maxSockets: 20, ca: options.ca, servername: options.serverName });
const body = JSON.stringify(options.review);

/** Throws unless the answer maps the name in time. */
async function review(): Promise<void> {
  const sent = request({
    host: "127.0.0.1",
    port: options.port,
    path: "/mutate/namespace",
    method: "POST",
    agent,
    headers: { "content-type": "application/json" },
    signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
  });
  sent.end(body);
  const [answer] = await once(sent, "response");
  const { response } = JSON.parse(await text(answer)) as { response: { patch?: string } };
  if (!Buffer.from(response.patch ?? "", "base64").includes(options.name)) throw new Error("not in the patch");
}

/** Sends reviews at the given rate until `isOver`, without waiting for earlier answers. */
async function load(isOver: () => boolean): Promise<LoadReport> {
  const latencies: number[] = [];
  const open = new Set<Promise<void>>();
  let [failed, late] = [0, 0];
  const send = async (): Promise<void> => {
    const started = performance.now();
    try {
      await review();
      latencies.push(performance.now() - started);
    } catch (error) {
      if (error instanceof Error && error.name === "AbortError") late += 1;
      else failed += 1;
    }
  };
  const first = performance.now();
  for (let count = 0; !isOver(); count += 1) {
    const wait = first + (count * 1000) / options.rate - performance.now();
    if (wait > 0) await delay(wait);
    const one = send().finally(() => open.delete(one));
    open.add(one);
  }
  await Promise.all(open);
  latencies.sort((a, b) => a - b);
  return {
    admissions: latencies.length + failed + late,
    failed,
    late,
    p99: latencies[Math.floor(latencies.length * 0.99)] ?? 0,
  };
}

let isOver = false;
parentPort?.once("message", () => {
  isOver = true;
});
const report = await load(() => isOver);
agent.destroy();
parentPort?.postMessage(report);
