import { isIP } from "node:net";
import { type DnsLookup, toolAddresses } from "#controller/dnscheck/lookup.ts";
import { observe } from "#controller/observe.ts";
import type { AddedChecks } from "#doctor/added-checks.ts";
import type { ClusterFacts } from "#doctor/facts.ts";
import { gather } from "#doctor/gather.ts";
import { findLoadBalancers } from "#doctor/load-balancers.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { parseText } from "#lib/config/parse-text.ts";
import type { Config } from "#lib/config/schema.ts";
import { PRESET_NAMES } from "#lib/config/sources.ts";
import { MAP_NAME, type MapObject, TEXT_KEY, textOfMap } from "#lib/documents/map-format.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import { addedChecks } from "../extras.ts";
import { DUMP_VERSION, type DumpHead } from "./format.ts";
import { knownWords } from "./known-words.ts";
import { lookUpAll } from "./look-up.ts";
import { Recording, recordingClient } from "./recording.ts";
import { Redactor } from "./redact.ts";
import { pluralOf, type StoredObjects } from "./stored-objects.ts";

/** Timeouts for reading the sources. 50,000 Ingresses take a few seconds. */
const PATIENCE = { withinMs: 60_000, stuckMs: 2_000 };
/** Timeout for look-ups. The dump has no look-up for a name that DNS has not answered by then. */
const LOOK_UP_MS = 30_000;
/** The key of the configuration in its ConfigMap. */
const CONFIG_KEY = "config.yaml";

/** Everything that a dump of a cluster contains. */
export interface RecordedCluster {
  readonly head: DumpHead;
  readonly recording: Recording;
  /** The DNS answers of the cluster, by name or wildcard. */
  readonly lookups: ReadonlyMap<string, readonly string[]>;
  /** What the extras add to the configuration. */
  readonly sections: AddedChecks["sections"];
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
  recording.follow(config.sources.custom);
  const { names } = await observe(config, { client: recorded, clusterDomain, identity: "dump", ...PATIENCE });
  await withoutComments(recording.objects);
  await unzipped(recording.objects);
  const lookups = new Map(seenByController(facts));
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
    sections: added.sections,
    head: { time: new Date(now).toISOString(), namespace, probeNamespace, clusterDomain, resources },
  };
}

/** For each name, the addresses that the cluster's DNS returned to the installed controller. */
function seenByController({ install }: ClusterFacts): (readonly [string, readonly string[]])[] {
  const names = install.status.known ? install.status.value.names : [];
  return names.flatMap(({ name, resolved }) => (resolved === undefined ? [] : [[name, resolved] as const]));
}

/** Writes the configuration as JSON, which has no comments, and whose fields are redacted one by one. */
async function withoutComments(objects: StoredObjects): Promise<void> {
  for (const json of objects.all()) {
    if (!json.includes(CONFIG_KEY)) continue;
    const object = JSON.parse(json) as ApiObject & { readonly data?: Readonly<Record<string, string>> };
    const config: unknown = await parseText(object.data?.[CONFIG_KEY] ?? "").catch(() => undefined);
    if (typeof config !== "object" || config === null) continue;
    const data = { ...object.data, [CONFIG_KEY]: JSON.stringify(config) };
    objects.put("/api/v1", "configmaps", { ...object, data } as ApiObject);
  }
}

/** Writes a gzipped map as text, whose words are redacted one by one. No other binary value is kept. */
async function unzipped(objects: StoredObjects): Promise<void> {
  for (const json of objects.all()) {
    if (!json.includes('"binaryData"')) continue;
    const { binaryData, data, ...object } = JSON.parse(json) as ApiObject & MapObject;
    const text = object.metadata.name === MAP_NAME && data === undefined ? await textOfMap(JSON.parse(json)) : {};
    const texts = typeof text === "string" ? { [TEXT_KEY]: text } : data;
    objects.put("/api/v1", "configmaps", { ...object, ...(texts && { data: texts }) } as ApiObject);
  }
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
  const tools = await toolAddresses(lookup, clusterDomain).catch(() => new Set<string>());
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

/** Renders the documents of a dump, each as JSON. */
export function* dumpLines(cluster: RecordedCluster, isRedacted: boolean): Generator<string> {
  const { head, lookups, recording, sections } = cluster;
  const { answers, objects } = recording;
  const redactor = isRedacted ? new Redactor(() => objects.all(), knownWords(sections)) : undefined;
  const shown = <T extends object>(document: T): T => (redactor?.object(document) as T | undefined) ?? document;
  const ours = (kind: string, fields: object) => JSON.stringify({ apiVersion: DUMP_VERSION, kind, ...fields });
  const { program, resources, ...fields } = head;
  yield ours("Dump", { program, ...shown(fields), resources: oddPlurals(shown(resources)) });
  for (const [key, answer] of answers) {
    const [method = "", path = ""] = key.split(" ", 2);
    yield ours("Answer", shown({ method, path, ...answer }));
  }
  for (const [name, addresses] of lookups) yield ours("Lookup", shown({ name, addresses }));
  for (const json of objects.all()) yield redactor ? JSON.stringify(shown(JSON.parse(json))) : json;
}

/** The plurals that do not follow from the kind. */
function oddPlurals(resources: Readonly<Record<string, string>>): Record<string, string> {
  const odd = Object.entries(resources).filter(([kind, plural]) => pluralOf(kind.split(".", 1)[0] ?? "") !== plural);
  return Object.fromEntries(odd);
}
