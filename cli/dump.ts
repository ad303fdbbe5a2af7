import type { Command } from "@commander-js/extra-typings";
import { type ConnectFlags, connect, connectOptionsFrom } from "#lib/kube/connect.ts";
import type { CliContext } from "#lib/process/context.ts";
import { type Definition, installationOptions, namespaceName } from "./command.ts";
import { dumpLines, recordCluster } from "./dump/write-dump.ts";

interface DumpFlags extends ConnectFlags {
  readonly namespace: string;
  readonly probeNamespace: string;
  /** Whether to replace names, hosts and addresses. */
  readonly redact?: boolean | undefined;
}

/** Defines `switchback dump`. */
export function define(command: Command, { context, version }: Definition): void {
  installationOptions(command)
    .option("--probe-namespace <name>", "namespace for the dry-run pod", namespaceName, "default")
    .option("--redact", "replace all words and addresses but Switchback's own, each always by the same one")
    .action((flags) => dump(version, flags, context));
}

/**
 * Prints everything that doctor and controller read in a cluster, as a stream of YAML documents. It runs their own
 * code and records the answers, so the same code gets the same results from the dump.
 */
export async function dump(program: string, flags: DumpFlags, context: CliContext): Promise<void> {
  const { env, stdout, stderr, progress } = context;
  const client = await connect({ ...connectOptionsFrom(env, flags), userAgent: "switchback-dump" });
  try {
    stderr.line(`reading ${client.server}`);
    const { head, ...cluster } = await progress.during("reading the cluster", () =>
      recordCluster(client, { ...flags, now: Date.now() }),
    );
    for (const json of dumpLines({ head: { ...head, program }, ...cluster }, flags.redact === true)) {
      stdout.write(`---\n${json}\n`);
    }
  } finally {
    client.close();
  }
}
