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

/** What the chart's hooks run, and what a person runs who did not install with Helm, or wants to know beforehand. */
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
    if (!flags.yes && !(await agreed(() => checkUninstall(options), say))) return say("nothing was changed");
    await releasePods(options);
  } finally {
    client.close();
  }
}

/** Shows the plan and asks. */
async function agreed(show: () => Promise<void>, say: (line: string) => void): Promise<boolean> {
  await show().catch((error: unknown) => {
    if (!(error instanceof SwitchbackError) || error.code !== "still-held") throw error;
    say(error.message);
  });
  return await ask("leave now? [y/N] ");
}
