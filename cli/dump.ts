import { observe } from "#controller/observe.ts";
import type { ClusterFacts } from "#doctor/facts.ts";
import { gather } from "#doctor/gather.ts";
import { parseConfig } from "#lib/config/parse.ts";
import type { Config } from "#lib/config/schema.ts";
import { PRESET_NAMES } from "#lib/config/sources.ts";
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

/** 50,000 Ingresses take a few seconds. */
const PATIENCE = { withinMs: 60_000, stuckMs: 2_000 };

/**
 * Prints what doctor and controller read of a cluster as a stream of YAML documents. It runs their own code and
 * records what that is answered, so that the same code finds the same in the dump.
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
    const facts = await progress.during("reading the cluster", () =>
      gather({ client: recorded, namespace, probeNamespace, now: () => now }),
    );
    const clusterDomain = domainOf(facts);
    await progress.during("reading what the controller reads", () =>
      observe(everySource(facts), { client: recorded, clusterDomain, identity: "dump", ...PATIENCE }),
    );
    const head = { program, time: new Date(now).toISOString(), namespace, probeNamespace, clusterDomain };
    writeDump(head, recording, stdout);
  } finally {
    client.close();
  }
}

/** The installed configuration or the default one, with every kind that there is a preset for. */
function everySource({ install, namespace }: ClusterFacts): Config {
  const installed = install.config.known ? install.config.value : undefined;
  const config = installed ?? parseConfig({ namespace });
  const { sources, policy, discovery } = config;
  return {
    ...config,
    sources: {
      ...sources,
      directory: undefined,
      ingress: { ...sources.ingress, enabled: true },
      gateway: { ...sources.gateway, enabled: true },
      services: { ...sources.services, enabled: true },
      presets: [...PRESET_NAMES],
    },
    policy: { ...policy, verifyDns: "off", namespaceAnnotation: true },
    discovery: { ...discovery, enabled: true },
  };
}

/** The domain that the cluster's CoreDNS serves. */
function domainOf({ clusterDns, install }: ClusterFacts): string | undefined {
  const configured = install.config.known ? install.config.value?.clusterDomain : undefined;
  if (configured !== undefined) return configured;
  const files = clusterDns.known ? clusterDns.value : [];
  return files
    .map(({ text }) => /^\s*kubernetes\s+([a-z0-9.-]+)/m.exec(text)?.[1])
    .find((found) => found !== undefined);
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
