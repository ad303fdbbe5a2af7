import type { Command } from "@commander-js/extra-typings";
import type { CliContext } from "#lib/process/context.ts";
import { type Definition, type FlagsOf, installationOptions, namespaceName } from "./command.ts";
import { dumpLines, recordCluster } from "./dump/write-dump.ts";
import { withClient } from "./with-client.ts";

function withOptions(command: Command) {
  return installationOptions(command)
    .option("--probe-namespace <name>", "namespace for the dry-run pod", namespaceName, "default")
    .option("--redact", "replace all words and addresses but Switchback's own, each always by the same one");
}

/** Defines `switchback dump`. */
export function define(command: Command, { context, version }: Definition): void {
  withOptions(command).action((flags) => dump(version, flags, context));
}

/**
 * Prints everything that doctor and controller read in a cluster, as a stream of YAML documents. It runs their own
 * code and records the answers, so the same code gets the same results from the dump.
 */
export async function dump(program: string, flags: FlagsOf<typeof withOptions>, context: CliContext): Promise<void> {
  const { stdout, stderr, progress } = context;
  const { head, ...cluster } = await withClient("dump", flags, context, async (client) => {
    stderr.line(`reading ${client.server}`);
    return await progress.during("reading the cluster", () => recordCluster(client, { ...flags, now: Date.now() }));
  });
  for (const json of dumpLines({ head: { ...head, program }, ...cluster }, flags.redact === true))
    stdout.write(`---\n${json}\n`);
}
