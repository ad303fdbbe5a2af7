import type { Command } from "@commander-js/extra-typings";
import { hasCode } from "#lib/errors/errors.ts";
import { type ConnectFlags, connect, connectOptionsFrom, isInPod } from "#lib/kube/connect.ts";
import type { CliContext } from "#lib/process/context.ts";
import { agree } from "./ask.ts";
import { type Definition, durationSeconds, installationOptions } from "./command.ts";
import { uninstallParts } from "./extras.ts";
import { removeLeftovers } from "./uninstall/leftovers.ts";
import { checkUninstall, releasePods, type UninstallOptions } from "./uninstall/release-pods.ts";

/** Defines `switchback uninstall`. */
export function define(command: Command, { context }: Definition): void {
  installationOptions(command)
    .option("--check", "print the plan without changing anything; fails while pods hold addresses of Switchback")
    .option("--force", "continue even if pods hold addresses of Switchback")
    .option("--timeout <time>", "time limit for restarts: seconds, or 90s, 5m, 1h", durationSeconds, 240)
    .option("--yes", "skip the confirmation prompt")
    .action((flags) => uninstall(flags, context));
}

export interface UninstallFlags extends ConnectFlags {
  readonly namespace: string;
  readonly check?: boolean | undefined;
  readonly force?: boolean | undefined;
  readonly yes?: boolean | undefined;
  /** Seconds. */
  readonly timeout: number;
}

/**
 * `switchback uninstall`: what has to happen before the manifests are deleted. The chart's hook runs it. People run it
 * for an install without Helm, or to see the plan first. Throws `declined` unless the answer is yes, and all errors of
 * `releasePods` and `removeLeftovers`.
 */
export async function uninstall(flags: UninstallFlags, { env, stdout, progress }: CliContext): Promise<void> {
  const client = await connect(connectOptionsFrom(env, flags));
  const say = stdout.line;
  const { namespace, force = false } = flags;
  const options = {
    client,
    namespace,
    force,
    timeoutMs: flags.timeout * 1000,
    now: Date.now,
    say,
    canAsk: isInPod(env),
    parts: await uninstallParts(),
  };
  try {
    if (flags.check) return await progress.during(READING, () => checkUninstall(options));
    if (!flags.yes) {
      await progress.during(READING, () => showPlan(options));
      await agree("uninstall now? [y/N] ");
    }
    await progress.during(RELEASING, () => releasePods(options));
    await progress.during(REMAINS, () => removeLeftovers(options));
  } finally {
    client.close();
  }
}

const READING = "reading who holds addresses of Switchback";
const RELEASING = "waiting until no pod holds an address of Switchback";
const REMAINS = "waiting until no controller runs, and deleting what it has created";

/**
 * Prints the plan. Pods that hold addresses are not yet a failure: the uninstall restarts those that it may restart.
 */
async function showPlan(options: UninstallOptions): Promise<void> {
  await checkUninstall(options).catch((error: unknown) => {
    if (!hasCode(error, "still-held")) throw error;
    options.say(error.message);
  });
}
