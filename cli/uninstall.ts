import { SwitchbackError } from "../errors/errors.ts";
import { connect, connectOptionsFrom } from "../kube/connect.ts";
import { removeLeftovers } from "../uninstall/leftovers.ts";
import { checkUninstall, releasePods } from "../uninstall/release-pods.ts";
import { ask } from "./ask.ts";
import type { CliContext } from "./context.ts";

export interface UninstallFlags {
  readonly namespace: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly check?: boolean;
  readonly remains?: boolean;
  readonly force?: boolean;
  readonly yes?: boolean;
  /** Seconds. */
  readonly timeout: number;
}

/** `switchback uninstall`: run by the chart's hooks, and by hand for an install without Helm or to see the plan first. */
export async function uninstall(flags: UninstallFlags, { env, stdout }: CliContext): Promise<void> {
  if (!(flags.timeout > 0)) {
    throw new SwitchbackError("input-invalid", "--timeout: must be a number of seconds greater than 0");
  }
  const client = await connect(connectOptionsFrom(env, flags));
  const say = (line: string) => void stdout.write(`${line}\n`);
  const { namespace, force = false } = flags;
  const options = { client, namespace, force, timeoutMs: flags.timeout * 1000, now: Date.now, say };
  try {
    if (flags.remains) return await removeLeftovers(options);
    if (flags.check) return await checkUninstall(options);
    if (!flags.yes && !(await confirmed(() => checkUninstall(options), say))) return say("nothing changed");
    await releasePods(options);
  } finally {
    client.close();
  }
}

/** Prints the plan and asks for confirmation. */
async function confirmed(show: () => Promise<void>, say: (line: string) => void): Promise<boolean> {
  await show().catch((error: unknown) => {
    if (!(error instanceof SwitchbackError) || error.code !== "still-held") throw error;
    say(error.message);
  });
  return await ask("uninstall now? [y/N] ");
}
