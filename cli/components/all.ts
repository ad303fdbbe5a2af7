import type { Config } from "#lib/config/schema.ts";
import type { Health, Probes } from "#lib/http/listen.ts";

import type { ProcessContext, Running } from "#lib/process/running.ts";

import { startController } from "./controller.ts";
import { startProxy } from "./proxy.ts";
import { startWebhook } from "./webhook.ts";

/**
 * How long after the start the pod's readiness waits for controller and webhook, in milliseconds. Usually they take a
 * second. If one of them takes longer, the relay must still get its Services' traffic.
 */
const WAIT_MS = 30_000;
/** File descriptors of the other parts: 640 connections of the webhook, 192 of the health servers, and the watches. */
const FILES_OF_OTHERS = 1_024;

type Part = "controller" | "webhook" | "proxy";

/** The probes of the parts that have started. */
type Started = Partial<Record<Part, Probes>>;

/**
 * `switchback all`: runs controller, webhook and proxy in one process. Each has its own section of the configuration,
 * ports, metrics and connection to the API server. The controller's port answers the probes for all three
 * (`probesOfAll`).
 *
 * If a part does not start, stops the others and throws the first failure. On `stop` the webhook still serves while
 * the relay drains.
 */
export async function startAll(config: Config, context: ProcessContext): Promise<Running> {
  const started: Started = {};
  const begun = performance.now();
  const probes = probesOfAll(started, () => performance.now() - begun);
  const register = async (part: Part, start: Promise<Running>): Promise<Running> => {
    const running = await start;
    if (running.probes !== undefined) started[part] = running.probes;
    return running;
  };
  const starts = await Promise.allSettled([
    register(
      "controller",
      startController(config, context.as("controller"), (own) => {
        started.controller = own;
        return probes;
      }),
    ),
    register("proxy", startProxy(config, context.as("proxy"), FILES_OF_OTHERS)),
    register("webhook", startWebhook(config, context.as("webhook"))),
  ]);
  const [controller, proxy, webhook] = starts.map((start) => (start.status === "fulfilled" ? start.value : undefined));
  const stop = async (): Promise<void> => {
    // The controller stops at once, so that another replica gets the Lease.
    await Promise.all([controller?.stop(), proxy?.stop()]);
    await webhook?.stop();
  };
  const failed = starts.find((start) => start.status === "rejected");
  if (failed !== undefined) {
    await stop();
    throw failed.reason;
  }
  return { stop, probes, ...(proxy?.broken !== undefined && { broken: proxy.broken }) };
}

/**
 * The probes of the whole process. It is not live if a part hangs. It is ready once the relay is ready, and all parts
 * have been ready once or `WAIT_MS` have passed. After that only the relay counts, because its clients have nowhere
 * else to go. If the webhook is not ready later, API servers continue without it.
 */
export function probesOfAll(started: Readonly<Started>, elapsedMs: () => number): Probes {
  let haveBeenReady = false;
  return {
    live: () => merged([started.controller?.live(), started.webhook?.live(), started.proxy?.live()]),
    ready: () => {
      const relay = started.proxy?.ready() ?? STARTING;
      const others = [started.controller?.ready() ?? STARTING, started.webhook?.ready() ?? STARTING];
      haveBeenReady ||= others.every(({ ok }) => ok);
      const text = [`proxy: ${relay.text}`, `controller: ${others[0]?.text}`, `webhook: ${others[1]?.text}`].join("\n");
      return { ok: relay.ok && (haveBeenReady || elapsedMs() >= WAIT_MS), text };
    },
  };
}

const STARTING: Health = { ok: false, text: "starting" };

/** The first unhealthy part; a part that has not started yet counts as healthy. */
function merged(parts: readonly (Health | undefined)[]): Health {
  return parts.find((part) => part !== undefined && !part.ok) ?? { ok: true, text: "ok" };
}
