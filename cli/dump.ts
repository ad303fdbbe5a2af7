import { clusterLookup } from "#controller/dnscheck/lookup.ts";
import { type ConnectFlags, connect, connectOptionsFrom, isInPod } from "#lib/kube/connect.ts";
import type { CliContext } from "#lib/process/context.ts";
import { dumpLines, recordCluster } from "./dump/write-dump.ts";

interface DumpFlags extends ConnectFlags {
  readonly namespace: string;
  readonly probeNamespace: string;
  /** Names, hosts and addresses are replaced. */
  readonly redact?: boolean;
}

/**
 * Prints what doctor and controller read of a cluster as a stream of YAML documents. It runs their own code and
 * records what that is answered, so that the same code finds the same in the dump.
 */
export async function dump(program: string, flags: DumpFlags, context: CliContext): Promise<void> {
  const { env, stdout, stderr, progress } = context;
  const client = await connect({ ...connectOptionsFrom(env, flags), userAgent: "switchback-dump" });
  try {
    stderr.line(`reading ${client.server}`);
    const lookup = isInPod(env) ? clusterLookup : undefined;
    const { head, ...cluster } = await progress.during("reading the cluster", () =>
      recordCluster(client, { ...flags, now: Date.now(), lookup }),
    );
    for (const json of dumpLines({ head: { ...head, program }, ...cluster }, flags.redact === true)) {
      stdout.write(`---\n${json}\n`);
    }
  } finally {
    client.close();
  }
}
