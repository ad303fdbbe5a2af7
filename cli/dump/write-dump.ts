import { observe } from "#controller/observe.ts";
import type { ClusterFacts } from "#doctor/facts.ts";
import { gather } from "#doctor/gather.ts";
import { parseConfig } from "#lib/config/parse.ts";
import type { Config } from "#lib/config/schema.ts";
import { PRESET_NAMES } from "#lib/config/sources.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { addedChecks } from "../added.ts";
import { DUMP_VERSION, type DumpHead } from "./format.ts";
import { Recording, recordingClient } from "./recording.ts";
import { Redactor } from "./redact.ts";

/** 50,000 Ingresses take a few seconds. */
const PATIENCE = { withinMs: 60_000, stuckMs: 2_000 };

/** A cluster as it is written. */
export interface RecordedCluster {
  readonly head: DumpHead;
  readonly recording: Recording;
}

/**
 * Runs the doctor and a controller that only reads, and records what they are answered. `now` is in milliseconds
 * since 1970.
 */
export async function recordCluster(
  client: KubeClient,
  { namespace, probeNamespace }: Pick<DumpHead, "namespace" | "probeNamespace">,
  now: number,
): Promise<RecordedCluster> {
  const recording = new Recording();
  const recorded = recordingClient(client, recording);
  const added = await addedChecks();
  const facts = await gather({ client: recorded, namespace, probeNamespace, now: () => now, added });
  const clusterDomain = domainOf(facts);
  await observe(everySource(facts), { client: recorded, clusterDomain, identity: "dump", ...PATIENCE });
  const { resources } = recording;
  return {
    recording,
    head: { time: new Date(now).toISOString(), namespace, probeNamespace, clusterDomain, resources },
  };
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

/** Names in the default configuration, which counts where there is no other. */
function defaultNames(): string[] {
  return parseConfig({}).targets.flatMap(({ name, upstream }) =>
    "service" in upstream ? [name, upstream.service.namespace, upstream.service.name] : name,
  );
}

/** The documents of a dump, each as JSON. */
export function* dumpLines({ head, recording }: RecordedCluster, isRedacted: boolean): Generator<string> {
  const { answers, objects } = recording;
  const redactor = isRedacted ? new Redactor(() => objects.all(), head.clusterDomain, defaultNames()) : undefined;
  const { namespace, probeNamespace } = head;
  const names = redactor && { namespace: redactor.name(namespace), probeNamespace: redactor.name(probeNamespace) };
  const ours = (kind: string, fields: object) => JSON.stringify({ apiVersion: DUMP_VERSION, kind, ...fields });
  yield ours("Dump", { ...head, ...names });
  for (const [key, answer] of answers) {
    const [method = "", path = ""] = key.split(" ", 2);
    yield ours("Answer", { method, ...(redactor?.answer(path, answer) ?? { path, ...answer }) });
  }
  for (const json of objects.all()) yield redactor ? JSON.stringify(redactor.object(JSON.parse(json))) : json;
}
