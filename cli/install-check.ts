import type { Command } from "@commander-js/extra-typings";
import type { Fact } from "#doctor/fact.ts";
import type { DryRun } from "#doctor/facts.ts";
import { dryRunPod } from "#doctor/gather-admission.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { type ConnectFlags, connect, connectOptionsFrom } from "#lib/kube/connect.ts";
import { pause, steadyNow } from "#lib/kube/time.ts";
import type { CliContext } from "#lib/process/context.ts";
import { type Definition, durationSeconds, installationOptions, namespaceName } from "./command.ts";

/** Defines `switchback install-check`. */
export function define(command: Command, { context }: Definition): void {
  installationOptions(command)
    .option("--probe-namespace <name>", "namespace for the dry-run pod", namespaceName, "default")
    .option("--timeout <time>", "how long to wait: seconds, or 90s, 5m, 1h", durationSeconds, 240)
    .action((flags) => installCheck(flags, context));
}

interface InstallCheckFlags extends ConnectFlags {
  readonly namespace: string;
  readonly probeNamespace: string;
  /** Seconds. */
  readonly timeout: number;
}

const POLL_MS = 2_000;
/**
 * Maximum number of consecutive answers that say nothing about the webhook. A new Role may take some seconds to
 * apply.
 */
const UNKNOWN_TIMES = 10;

/**
 * `switchback install-check`: waits until the API server calls the webhook, which annotates an opted-in pod. Like
 * cert-manager's `cmctl check api` (its chart's startupapicheck), it creates the object as a dry run until that
 * works. If something else denies the pod, the result is unknown, and the check passes. Throws `webhook-silent` after
 * `timeout`.
 */
export async function installCheck(flags: InstallCheckFlags, { env, stdout }: CliContext): Promise<void> {
  const { namespace, probeNamespace } = flags;
  const client = await connect({ ...connectOptionsFrom(env, flags), userAgent: "switchback-install-check" });
  const pod = `the dry run of an opted-in pod in namespace ${probeNamespace}`;
  const deadline = steadyNow() + flags.timeout * 1000;
  let unknown = 0;
  let last = "";
  try {
    for (;;) {
      const { done, why } = read(await dryRunPod(client, probeNamespace));
      if (done) return stdout.line(`the webhook answers: ${pod} was injected`);
      unknown = why === undefined ? 0 : unknown + 1;
      if (unknown === UNKNOWN_TIMES) return stdout.line(`not checked: the result of ${pod} is unknown: ${why}`);
      const said = why === undefined ? `${pod} was not injected yet` : `${pod} was rejected: ${why}`;
      if (said !== last) stdout.line(said);
      last = said;
      if (steadyNow() > deadline) break;
      await pause(POLL_MS);
    }
  } finally {
    client.close();
  }
  throw new SwitchbackError(
    "webhook-silent",
    `the webhook has not answered for ${flags.timeout} s. Look at kubectl -n ${namespace} get pods, then run ` +
      "switchback doctor. New pods start without names until it answers",
  );
}

/** `why`: the reason, if the answer says nothing about the webhook. */
function read(dryRun: Fact<DryRun>): { readonly done: boolean; readonly why?: string } {
  if (!dryRun.known) return { done: false, why: dryRun.reason.text };
  const { value } = dryRun;
  return value.outcome === "refused" ? { done: false, why: value.text } : { done: value.outcome === "injected" };
}
