import { CA_SECRET, TLS_SECRET } from "#certs/secret-store.ts";
import { RECORD_MAPS, RECORDS_NAME } from "#controller/rollout/record-map.ts";
import { shortHash } from "#hostmap/hash.ts";
import { parseHosts } from "#hostmap/hosts-text.ts";
import { CONFIRM_KEY, HOLD_KEY } from "#hostmap/metadata-keys.ts";
import type { RemovalHold } from "#hostmap/removal-guard.ts";
import type { TargetAddress } from "#hostmap/types.ts";
import { type HeaderQuestion, parseQuestions, renderQuestions } from "#lib/documents/header-questions.ts";
import * as map from "#lib/documents/map-format.ts";
import { builderOf } from "#lib/documents/read-map.ts";
import { mapRevisionOf, Shards } from "#lib/documents/shards.ts";
import { STATUS_SECRET } from "#lib/documents/status-page.ts";
import * as format from "#lib/documents/targets-format.ts";
import { QUESTIONS_KEY, TARGETS_KEY, TARGETS_NAME } from "#lib/documents/targets-name.ts";

// What the tests know of the objects in which the product keeps its state: their names, keys and formats. If a format
// changes, the tests that read or write it stay as they are. Functions that read take all ConfigMaps of Switchback's
// own namespace.

/** The names of single objects. */
export const OBJECTS = {
  /** The ConfigMap that Events about the map name. */
  map: map.STATE_NAME,
  /** The ConfigMap with whose dry run the controller checks that the API server calls the webhook. */
  reachable: map.INDEX_NAME,
  targets: TARGETS_NAME,
  records: RECORDS_NAME,
  ca: CA_SECRET,
  serving: TLS_SECRET,
  statusKey: STATUS_SECRET,
  lease: "switchback-controller",
} as const;

/** The ConfigMaps that the controller may delete, and all that it writes, in the order of its Role. */
export const DELETABLE: readonly string[] = map.SHARD_NAMES;
export const WRITTEN: readonly string[] = [map.STATE_NAME, map.INDEX_NAME, ...DELETABLE, TARGETS_NAME, ...RECORD_MAPS];

/** Returns the first of the objects that exist for the same purpose, with the same rights. */
export function firstLike(name: string): string {
  return [DELETABLE, RECORD_MAPS].find((names) => names.includes(name))?.[0] ?? name;
}

/**
 * Reads the map: the addresses and the namespace of each name, the removal that is held, and the id of the one that was
 * confirmed last. The revision is missing while the map is incomplete.
 */
export function publishedIn(configMaps: readonly object[]) {
  const objects = configMaps as readonly map.MapConfigMap[];
  const text = partsIn(objects).map((name) => dataIn(objects, name)[map.SHARD_KEY] ?? "");
  const holders = new Map<string, string>();
  const state = objects.find(({ metadata }) => metadata.name === map.STATE_NAME);
  const whole = builderOf(objects).build();
  const hold = state?.metadata.annotations?.[HOLD_KEY];
  return {
    revision: state === undefined || "code" in whole ? undefined : whole.revision,
    hosts: parseHosts(text.join(""), new Map(), holders),
    holders,
    hold: hold === undefined ? undefined : (JSON.parse(hold) as RemovalHold),
    confirmed: state?.metadata.annotations?.[CONFIRM_KEY],
  };
}

/** Returns the names of the map's ConfigMaps. */
export function mapNamesIn(configMaps: readonly object[]): readonly string[] {
  return [map.STATE_NAME, map.INDEX_NAME, ...partsIn(configMaps)];
}

/** Returns the published lines in the form of hosts(5), without comments. */
export function hostsText(configMaps: readonly object[]): string {
  return [...publishedIn(configMaps).hosts]
    .flatMap(([name, addresses]) => addresses.map((ip) => `${ip} ${name}\n`))
    .join("");
}

/**
 * Returns the ConfigMaps of a map: the addresses of each name, in the order of their first publication, the addresses
 * of the targets, and the text that says what is held.
 */
export function mapObjects(
  hosts: Readonly<Record<string, readonly string[]>>,
  { targets = [], hold }: { readonly targets?: readonly TargetAddress[]; readonly hold?: string | undefined } = {},
) {
  const all = new Shards();
  for (const [at, [name, addresses]] of Object.entries(hosts).entries()) all.set(name, addresses, at + 1);
  const parts = all.render().map(({ index, ...rest }) => ({ ...rest, index, name: map.SHARD_NAMES[index] ?? "" }));
  const shards = parts.map(({ name, shardHash }) => ({ name, revision: shardHash }));
  const annotations = hold === undefined ? {} : { [HOLD_KEY]: hold };
  return [
    configMap(map.STATE_NAME, { [map.STATE_KEY]: map.renderState({ targets }) }, annotations),
    configMap(map.INDEX_NAME, { [map.INDEX_KEY]: map.renderIndex({ revision: mapRevisionOf(parts), shards }) }),
    ...parts.map(({ name, text }) => configMap(name, { [map.SHARD_KEY]: text })),
  ];
}

/** Edits the lines of a small map by hand. Without a text, all data goes. Readers refuse the result as `EDITED`. */
export function edited(configMaps: readonly object[], text: string | undefined): { name: string; data: object | null } {
  return { name: partsIn(configMaps)[0] ?? "", data: text === undefined ? null : { [map.SHARD_KEY]: text } };
}
export const EDITED = "shard-other-revision";

/** Edits a small map by hand such that readers take it for one that a leader wrote. */
export function forged(configMaps: readonly object[], text: string): ReturnType<typeof edited>[] {
  const part = edited(configMaps, text);
  const shards = [{ name: part.name, revision: shortHash(text) }];
  const index = map.renderIndex({ revision: shortHash(shortHash(text)), shards });
  return [part, { name: map.INDEX_NAME, data: { [map.INDEX_KEY]: index } }];
}

/** Returns ConfigMaps that look like the map's: one that the leader deletes, and others that it leaves alone. */
export function strays(text: string) {
  const stray = (name: string) => configMap(name, { [map.SHARD_KEY]: text, [map.INDEX_KEY]: "{}" });
  return { ours: stray(`${map.STATE_NAME}-7`), foreign: [stray("stranger"), stray(`${map.STATE_NAME}-1024`)] };
}

/** Reads what the proxies relay. Throws if it is missing or broken. */
export function targetsIn(configMaps: readonly object[]): format.PublishedTargets {
  const parsed = format.parseTargets(dataIn(configMaps, TARGETS_NAME)[TARGETS_KEY] ?? "");
  if ("code" in parsed) throw new Error(parsed.text);
  return parsed;
}

/** Reads what the proxies ask. */
export function questionsIn(configMaps: readonly object[]): readonly HeaderQuestion[] {
  const parsed = parseQuestions(dataIn(configMaps, TARGETS_NAME)[QUESTIONS_KEY] ?? "");
  return "code" in parsed ? [] : parsed;
}

/** Returns the ConfigMap of what the proxies relay and ask. */
export function targetsObject(targets: readonly format.PublishedTarget[], questions: readonly HeaderQuestion[] = []) {
  const data = { [TARGETS_KEY]: format.renderTargets(targets).text, [QUESTIONS_KEY]: renderQuestions(questions) };
  return configMap(TARGETS_NAME, data);
}

function partsIn(configMaps: readonly object[]): readonly string[] {
  const index = map.parseIndex(dataIn(configMaps, map.INDEX_NAME)[map.INDEX_KEY] ?? "");
  return "code" in index ? [] : index.shards.map(({ name }) => name);
}

function dataIn(configMaps: readonly object[], name: string): Readonly<Record<string, string | undefined>> {
  return (configMaps as readonly map.MapConfigMap[]).find(({ metadata }) => metadata.name === name)?.data ?? {};
}

function configMap(name: string, data: Readonly<Record<string, string>>, annotations: object = {}) {
  const labels = name === TARGETS_NAME ? {} : map.MAP_LABELS;
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name, labels, annotations }, data };
}
