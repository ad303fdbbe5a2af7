import { gunzipSync, gzipSync } from "node:zlib";
import { CA_SECRET, TLS_SECRET } from "#certs/objects.ts";
import { STATE_KEY } from "#extras/publishers/publisher-state.ts";
import { shortHash } from "#hostmap/hash.ts";
import { HostsParser, renderHosts } from "#hostmap/hosts-text.ts";
import { HOLD_KEY, MAP_LOST_KEY, MAP_REVISION_KEY } from "#hostmap/metadata-keys.ts";
import type { RemovalHold } from "#hostmap/published-names.ts";
import type { TargetAddress } from "#hostmap/types.ts";
import { GZIP_KEY, MAP_NAME, type MapObject, mapAnnotations, TEXT_KEY } from "#lib/documents/map-format.ts";
import { STATUS_SECRET } from "#lib/documents/status-page.ts";
import * as format from "#lib/documents/targets-format.ts";

// What the tests know of the objects in which the product keeps its state: their names, keys and formats. If a format
// changes, the tests that read or write it stay as they are. Functions that read take all ConfigMaps of Switchback's
// own namespace.

/** The names of single objects. */
export const OBJECTS = {
  /** The ConfigMap that Events about the map name. */
  map: MAP_NAME,
  /** The ConfigMap with whose dry run the controller checks that the API server calls the webhook. */
  reachable: format.TARGETS_NAME,
  targets: format.TARGETS_NAME,
  ca: CA_SECRET,
  serving: TLS_SECRET,
  statusKey: STATUS_SECRET,
  lease: "switchback-controller",
  /** The key of a publisher's state in its ConfigMap. */
  publisherState: STATE_KEY,
} as const;

/** The ConfigMaps that the controller writes, in the order of its Role. It deletes none. */
export const WRITTEN: readonly string[] = [MAP_NAME, format.TARGETS_NAME];

/**
 * Reads the map: the addresses and the namespace of each name, the removal that is held, and when the map was lost.
 * The revision is missing while the map is missing or broken.
 */
export function publishedIn(configMaps: readonly object[]) {
  const { metadata, data, binaryData } = mapIn(configMaps) ?? {};
  const zipped = binaryData?.[GZIP_KEY];
  const text = zipped === undefined ? data?.[TEXT_KEY] : gunzipSync(Buffer.from(zipped, "base64")).toString();
  const parser = new HostsParser();
  parser.readAll(text ?? "");
  const { [HOLD_KEY]: hold, [MAP_LOST_KEY]: lost, [MAP_REVISION_KEY]: revision } = metadata?.annotations ?? {};
  const lines = [...parser.lines.values()];
  return {
    revision: text !== undefined && shortHash(text) === revision ? revision : undefined,
    hosts: new Map(lines.map(({ name, addresses }) => [name, addresses])),
    holders: new Map(lines.flatMap(({ name, holder }) => (holder === undefined ? [] : [[name, holder]]))),
    lost,
    hold: hold === undefined ? undefined : (JSON.parse(hold) as RemovalHold),
  };
}

/** Returns the published lines in the form of hosts(5), without comments. */
export function hostsText(configMaps: readonly object[]): string {
  return [...publishedIn(configMaps).hosts]
    .flatMap(([name, addresses]) => addresses.map((ip) => `${ip} ${name}\n`))
    .join("");
}

/**
 * Returns the ConfigMaps of a map: the addresses of each name, in the order of their first publication, the addresses
 * of the targets, the text that says what is held, the namespaces that hold the names, and the time of publication.
 * `zipped`: as a large map is written.
 */
export function mapObjects(
  hosts: Readonly<Record<string, readonly string[]>>,
  {
    targets = [],
    hold,
    holders = {},
    time = "2026-01-01T00:00:00.000Z",
    zipped = false,
  }: {
    readonly targets?: readonly TargetAddress[];
    readonly hold?: string | undefined;
    readonly holders?: Readonly<Record<string, string>>;
    readonly time?: string;
    readonly zipped?: boolean;
  } = {},
) {
  const lines = Object.entries(hosts).map(([name, addresses]) => ({ name, addresses, holder: holders[name] }));
  const text = renderHosts(lines);
  const annotations = mapAnnotations(shortHash(text), {}, time);
  const port = { port: 443, upstreamPort: 443, protocol: "v1" as const };
  const ports = (at: number) => [{ ...port, listenPort: 15_000 + at }];
  const relayed = targets.map((target, at) => ({ ...target, upstream: "192.0.2.1", ports: ports(at) }));
  const map = configMap(MAP_NAME, { [TEXT_KEY]: text }, { ...annotations, ...(hold && { [HOLD_KEY]: hold }) });
  const binaryData = { [GZIP_KEY]: gzipSync(text).toString("base64") };
  return [zipped ? { ...map, data: {}, binaryData } : map, ...(targets.length === 0 ? [] : [targetsObject(relayed)])];
}

/** The map after an edit by hand. Without a text, all data goes. Readers refuse the result as `EDITED`. */
export function edited(text: string | undefined): { name: string; data: object | null; annotations?: object } {
  return { name: MAP_NAME, data: text === undefined ? null : { [TEXT_KEY]: text } };
}
export const EDITED = "map-malformed";

/** The map after an edit by hand, such that readers take it for one that a leader wrote. */
export function forged(text: string): ReturnType<typeof edited> {
  return { ...edited(text), annotations: { [MAP_REVISION_KEY]: shortHash(text) } };
}

/** Names of ConfigMaps that nobody of us may write, although one looks like the map's. */
export const STRAYS: readonly string[] = ["stranger", `${MAP_NAME}-0`];

/** Reads what the proxies relay. Throws if it is missing or broken. */
export function targetsIn(configMaps: readonly object[]): format.PublishedTargets {
  const parsed = format.parseTargets(dataIn(configMaps, format.TARGETS_NAME)[format.TARGETS_KEY] ?? "");
  if ("code" in parsed) throw new Error(parsed.text);
  return parsed;
}

/** A port that the proxies ask. */
export type HeaderQuestion = format.HeaderQuestion;

/** Reads what the proxies ask, with the answers that decide. */
export function questionsIn(configMaps: readonly object[]): readonly HeaderQuestion[] {
  const parsed = format.parseTargets(dataIn(configMaps, format.TARGETS_NAME)[format.TARGETS_KEY] ?? "");
  return "code" in parsed ? [] : format.questionsOfPublished(parsed);
}

/** Returns the ConfigMap of what the proxies relay and ask. */
export function targetsObject(targets: readonly format.PublishedTarget[], questions: readonly HeaderQuestion[] = []) {
  const all = new Map(targets.map((target) => [target.name, target]));
  for (const [name, asked] of Map.groupBy(questions, ({ target }) => target)) {
    const [{ namespace = "", upstream = "", upstreamIPs } = {}] = asked;
    const ask = asked.map(({ target: _target, namespace: _namespace, upstream: _upstream, ...question }) => question);
    const added = { name, upstream, ...(upstreamIPs && { upstreamIPs }), ports: [], clusterIPs: [] };
    all.set(name, { ...(all.get(name) ?? added), ...(namespace && { namespace }), ask });
  }
  return configMap(format.TARGETS_NAME, { [format.TARGETS_KEY]: format.renderTargets([...all.values()]).text });
}

function mapIn(configMaps: readonly object[]): MapObject | undefined {
  return (configMaps as readonly MapObject[]).find(({ metadata }) => metadata.name === MAP_NAME);
}

function dataIn(configMaps: readonly object[], name: string): Readonly<Record<string, string | undefined>> {
  return (configMaps as readonly MapObject[]).find(({ metadata }) => metadata.name === name)?.data ?? {};
}

function configMap(name: string, data: Readonly<Record<string, string>>, annotations: object = {}) {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name, labels: {}, annotations }, data };
}
