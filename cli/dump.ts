import { gather } from "#doctor/gather.ts";
import { connect, connectOptionsFrom } from "#lib/kube/connect.ts";
import type { CliContext, Output } from "#lib/process/context.ts";
import { DUMP_VERSION } from "./dump/format.ts";
import { Recording, recordingClient } from "./dump/recording.ts";

interface DumpFlags {
  readonly namespace: string;
  readonly probeNamespace: string;
  readonly kubeconfig?: string;
  readonly context?: string;
}

/**
 * Prints what the doctor reads of a cluster as a stream of YAML documents. It runs the doctor's own code and records
 * what that is answered, so that the same code finds the same in the dump.
 */
export async function dump(program: string, flags: DumpFlags, context: CliContext): Promise<void> {
  const { env, stdout, stderr, progress } = context;
  const client = await connect({ ...connectOptionsFrom(env, flags), userAgent: "switchback-dump" });
  const { namespace, probeNamespace } = flags;
  try {
    stderr.line(`reading ${client.server}`);
    const recording = new Recording();
    const recorded = recordingClient(client, recording);
    const now = Date.now();
    await progress.during("reading the cluster", () =>
      gather({ client: recorded, namespace, probeNamespace, now: () => now }),
    );
    writeDump({ program, time: new Date(now).toISOString(), namespace, probeNamespace }, recording, stdout);
  } finally {
    client.close();
  }
}

function writeDump(head: object, { resources, answers, objects }: Recording, stdout: Output): void {
  const write = (json: string) => stdout.write(`---\n${json}\n`);
  const ours = (kind: string, fields: object) => write(JSON.stringify({ apiVersion: DUMP_VERSION, kind, ...fields }));
  ours("Dump", { ...head, resources });
  for (const [key, answer] of answers) {
    const [method, path] = key.split(" ", 2);
    ours("Answer", { method, path, ...answer });
  }
  for (const json of objects.all()) write(json);
}
