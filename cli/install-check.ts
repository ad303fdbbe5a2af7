import type { Command } from "@commander-js/extra-typings";
import { webhookProblem } from "#controller/rollout/webhook-problem.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import type { CliContext } from "#lib/process/context.ts";
import { waitForRestart } from "#lib/workloads/restart.ts";
import { type Definition, durationSeconds, type FlagsOf, installationOptions } from "./command.ts";
import { withClient } from "./with-client.ts";

function withOptions(command: Command) {
  const text = "how long to wait: seconds, or 90s, 5m, 1h";
  return installationOptions(command).option("--timeout <time>", text, durationSeconds, 240);
}

/** Defines `switchback install-check`. */
export function define(command: Command, { context }: Definition): void {
  withOptions(command).action((flags) => installCheck(flags, context));
}

/**
 * `switchback install-check`: waits until the API server calls the webhook, as cert-manager's `cmctl check api` does
 * (its chart's startupapicheck). It asks as the controller does before a restart. So it also waits until a controller
 * leads and has written the targets. Throws `webhook-silent` after `timeout`.
 */
export async function installCheck(flags: FlagsOf<typeof withOptions>, context: CliContext): Promise<void> {
  const { stdout } = context;
  const { namespace, timeout } = flags;
  const problem = await withClient("install-check", flags, context, (client) => {
    const look = async () => ({ missing: await webhookProblem(client, namespace) });
    return waitForRestart(look, { timeoutMs: timeout * 1000, report: stdout.line });
  });
  if (problem === undefined) return stdout.line("the API server calls the webhook");
  const next = `Look at kubectl -n ${namespace} get pods, then run switchback doctor`;
  const text = `the webhook has not answered for ${timeout} s. ${next}. New pods start without names until it answers`;
  throw new SwitchbackError("webhook-silent", text);
}
