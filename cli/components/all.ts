import type { Config } from "#lib/config/schema.ts";
import type { Probes } from "#lib/http/listen.ts";
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

/** The probes of the parts that have started. */
type Started = { [part in "controller" | "webhook" | "proxy"]?: Probes | undefined };

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
  const [controller, proxy, webhook] = await Promise.allSettled([
    startController(config, context.as("controller"), (own) => {
      started.controller = own;
      return probes;
    }),
    startProxy(config, context.as("proxy"), FILES_OF_OTHERS).then((running) => {
      started.proxy = running.probes;
      return running;
    }),
    startWebhook(config, context.as("webhook")).then((running) => {
      started.webhook = running.probes;
      return running;
    }),
  ]);
  const stopPart = async (part: PromiseSettledResult<Running>) => part.status === "fulfilled" && part.value.stop();
  const stop = async (): Promise<void> => {
    // The controller stops at once, so that another replica gets the Lease.
    await Promise.all([stopPart(controller), stopPart(proxy)]);
    await stopPart(webhook);
  };
  const failed = [controller, proxy, webhook].find((part) => part.status === "rejected");
  if (failed !== undefined) {
    await stop();
    throw failed.reason;
  }
  return { stop, probes, ...(proxy.status === "fulfilled" && proxy.value.broken && { broken: proxy.value.broken }) };
}

/**
 * The probes of the whole process. It is not live if a part hangs. It is ready once the relay is ready, and all parts
 * have been ready once or `WAIT_MS` have passed. After that only the relay counts, because its clients have nowhere
 * else to go. If the webhook is not ready later, API servers continue without it.
 */
export function probesOfAll(started: Readonly<Started>, elapsedMs: () => number): Probes {
  let haveBeenReady = false;
  return {
    live: () => {
      const parts = [started.controller, started.webhook, started.proxy].map((part) => part?.live());
      return parts.find((part) => part?.ok === false) ?? { ok: true, text: "ok" };
    },
    ready: () => {
      const readiness = (part: Probes | undefined) => part?.ready() ?? { ok: false, text: "starting" };
      const proxy = readiness(started.proxy);
      const controller = readiness(started.controller);
      const webhook = readiness(started.webhook);
      haveBeenReady ||= controller.ok && webhook.ok;
      const text = `proxy: ${proxy.text}\ncontroller: ${controller.text}\nwebhook: ${webhook.text}`;
      return { ok: proxy.ok && (haveBeenReady || elapsedMs() >= WAIT_MS), text };
    },
  };
}
