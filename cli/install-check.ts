import type { Command } from "@commander-js/extra-typings";
import { webhookProblem } from "#controller/rollout/webhook-problem.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { type ConnectFlags, connect, connectOptionsFrom } from "#lib/kube/connect.ts";
import { pause, steadyNow } from "#lib/kube/time.ts";
import type { CliContext } from "#lib/process/context.ts";
import { type Definition, durationSeconds, installationOptions } from "./command.ts";

/** Defines `switchback install-check`. */
export function define(command: Command, { context }: Definition): void {
  installationOptions(command)
    .option("--timeout <time>", "how long to wait: seconds, or 90s, 5m, 1h", durationSeconds, 240)
    .action((flags) => installCheck(flags, context));
}

interface InstallCheckFlags extends ConnectFlags {
  readonly namespace: string;
  /** Seconds. */
  readonly timeout: number;
}

const POLL_MS = 2_000;

/**
 * `switchback install-check`: waits until the API server calls the webhook, as cert-manager's `cmctl check api` does
 * (its chart's startupapicheck). It asks as the controller does before a restart. So it also waits until a controller
 * leads and has written the targets. Throws `webhook-silent` after `timeout`.
 */
export async function installCheck(flags: InstallCheckFlags, { env, stdout }: CliContext): Promise<void> {
  const { namespace, timeout } = flags;
  const client = await connect({ ...connectOptionsFrom(env, flags), userAgent: "switchback-install-check" });
  const deadline = steadyNow() + timeout * 1000;
  let last = "";
  try {
    for (;;) {
      const problem = await webhookProblem(client, namespace);
      if (problem === undefined) return stdout.line("the API server calls the webhook");
      if (problem !== last) stdout.line(problem);
      last = problem;
      if (steadyNow() > deadline) break;
      await pause(POLL_MS);
    }
  } finally {
    client.close();
  }
  throw new SwitchbackError(
    "webhook-silent",
    `the webhook has not answered for ${timeout} s. Look at kubectl -n ${namespace} get pods, then run ` +
      "switchback doctor. New pods start without names until it answers",
  );
}
