import { isIP } from "node:net";
import type { DnsLookup } from "#controller/dnscheck/lookup.ts";
import { OtherTools } from "#controller/dnscheck/other-tools.ts";
import { observe } from "#controller/observe.ts";
import type { ClusterFacts } from "#doctor/facts.ts";
import { gather } from "#doctor/gather.ts";
import { findLoadBalancers } from "#doctor/load-balancers.ts";
import { parseConfig } from "#lib/config/parse.ts";
import type { Config } from "#lib/config/schema.ts";
import { PRESET_NAMES } from "#lib/config/sources.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { addedChecks } from "../extras.ts";
import { DUMP_VERSION, type DumpHead } from "./format.ts";
import { lookUpAll } from "./look-up.ts";
import { Recording, recordingClient } from "./recording.ts";
import { Redactor } from "./redact.ts";

/** Timeouts for reading the sources. 50,000 Ingresses take a few seconds. */
const PATIENCE = { withinMs: 60_000, stuckMs: 2_000 };
/** Timeout for look-ups. The dump has no look-up for a name that DNS has not answered by then. */
const LOOK_UP_MS = 30_000;

/** Everything that a dump of a cluster contains. */
export interface RecordedCluster {
  readonly head: DumpHead;
  readonly recording: Recording;
  /** The DNS answers of the cluster, by name or wildcard. */
  readonly lookups: ReadonlyMap<string, readonly string[]>;
}

interface RecordOptions extends Pick<DumpHead, "namespace" | "probeNamespace"> {
  /** Milliseconds since 1970. */
  readonly now: number;
  /** Asks the cluster's DNS; undefined if this machine uses another DNS. */
  readonly lookup?: ((servers: readonly string[]) => DnsLookup) | undefined;
}

/**
 * Runs the doctor and a read-only controller, and records the answers that they get. Records the DNS answers that the
 * installed controller has seen, and looks up the other names if this machine can ask the cluster's DNS.
 */
export async function recordCluster(
  client: KubeClient,
  { namespace, probeNamespace, now, lookup }: RecordOptions,
): Promise<RecordedCluster> {
  const recording = new Recording();
  const recorded = recordingClient(client, recording);
  const added = await addedChecks();
  const facts = await gather({ client: recorded, namespace, probeNamespace, now: () => now, added });
  const clusterDomain = domainOf(facts);
  const config = everySource(facts);
  const { names } = await observe(config, { client: recorded, clusterDomain, identity: "dump", ...PATIENCE });
  const lookups = new Map(facts.lookups);
  if (lookup !== undefined) {
    const missing = [...names.map(({ name }) => name), ...balancerNames(facts)].filter((name) => !lookups.has(name));
    const ask = lookup(config.policy.dnsServers);
    for (const [name, addresses] of await lookUpMissing(missing, ask, facts, clusterDomain))
      lookups.set(name, addresses);
  }
  const { resources } = recording;
  return {
    recording,
    lookups,
    head: { time: new Date(now).toISOString(), namespace, probeNamespace, clusterDomain, resources },
  };
}

/** The installed configuration or the default one, with all presets and all sources in the cluster enabled. */
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

/** Hostnames of load balancers. The controller compares names with the addresses that these resolve to. */
function balancerNames(facts: ClusterFacts): string[] {
  return findLoadBalancers(facts).flatMap(({ addresses }) => addresses.filter((address) => isIP(address) === 0));
}

async function lookUpMissing(
  names: readonly string[],
  lookup: DnsLookup,
  { services, namespace }: ClusterFacts,
  clusterDomain: string | undefined,
): Promise<Map<string, string[]>> {
  const ours = (services.known ? services.value : []).filter((service) => service.namespace === namespace);
  const addresses = new Set(ours.flatMap(({ clusterIPs }) => clusterIPs));
  const tools = new OtherTools(lookup, clusterDomain);
  await tools.refresh();
  const isOurs = (address: string) => addresses.has(address) || tools.has(address);
  return await lookUpAll(names, { lookup, isOurs, signal: AbortSignal.timeout(LOOK_UP_MS) });
}

/** The configured cluster domain, else the one that the cluster's CoreDNS serves. */
function domainOf({ clusterDns, install }: ClusterFacts): string | undefined {
  const configured = install.config.known ? install.config.value?.clusterDomain : undefined;
  if (configured !== undefined) return configured;
  const files = clusterDns.known ? clusterDns.value : [];
  return files
    .map(({ text }) => /^\s*kubernetes\s+([a-z0-9.-]+)/m.exec(text)?.[1])
    .find((found) => found !== undefined);
}

/** The names in the default configuration, which applies if no other is installed. */
function defaultNames(): string[] {
  return parseConfig({}).targets.flatMap(({ name, upstream }) =>
    "service" in upstream ? [name, upstream.service.namespace, upstream.service.name] : name,
  );
}

/** Renders the documents of a dump, each as JSON. */
export function* dumpLines({ head, recording, lookups }: RecordedCluster, isRedacted: boolean): Generator<string> {
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
  for (const [name, addresses] of lookups) {
    const lookup = { name, addresses };
    yield ours("Lookup", redactor?.object(lookup) ?? lookup);
  }
  for (const json of objects.all()) yield redactor ? JSON.stringify(redactor.object(JSON.parse(json))) : json;
}
