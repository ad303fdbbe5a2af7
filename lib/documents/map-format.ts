import * as v from "valibot";
import { FORMAT_KEY, MAP_KEY } from "#hostmap/metadata-keys.ts";
import type { Reason, TargetAddress } from "#hostmap/types.ts";
import { object } from "#lib/errors/schemas.ts";
import { attempt } from "#lib/errors/validation.ts";
import { MAX_SHARDS } from "./shards.ts";

/**
 * The map is published in ConfigMaps: shards, whose names are taken from a pool, and two indexes that name them.
 *
 * `switchback-hosts-index` (format 1) is what webhooks and agents watch, so it is short. `switchback-hosts` (format 0) is for
 * people and commands, carries the targets and the removal hold, and is what the release before reads.
 */
export const COMPACT_INDEX_NAME = "switchback-hosts-index";
export const INDEX_NAME = "switchback-hosts";
/** The only key of both indexes. */
export const INDEX_KEY = "index.json";
/** The only key of a shard's ConfigMap. */
export const SHARD_KEY = "hosts";
/** Labels of both indexes and of the shards, and the selector that lists them. */
export const MAP_LABELS: Readonly<Record<string, string>> = { [MAP_KEY]: "hosts" };
export const MAP_SELECTOR = `${MAP_KEY}=hosts`;
/**
 * Label of an index of format 0 that has a compact one beside it. The release before does not write it: while it leads, the
 * watch of `FOLLOWED_SELECTOR` sees its index, and that one is in force.
 */
export const SUPERSEDED_LABELS: Readonly<Record<string, string>> = { [FORMAT_KEY]: "0" };
/** Whether a ConfigMap of the map is an index of format 0 beside which the compact one is in force. */
export function isSuperseded({ metadata: { labels = {} } }: MapConfigMap): boolean {
  return labels[FORMAT_KEY] === SUPERSEDED_LABELS[FORMAT_KEY];
}
/** Selects what webhooks and agents watch: each change of the map costs every one of them what this lets through. */
export const FOLLOWED_SELECTOR = `${MAP_SELECTOR},${FORMAT_KEY}!=0`;

/**
 * Number of names for shards: twice `MAX_SHARDS`, so that the whole map can be written beside the one that is in force. RBAC
 * names each of them. The release before reads shards of any name; its leader deletes those below 64 and leaves others where
 * they are, which no index names then. The writer takes the lowest free names, so that few maps come to that.
 */
export const SHARD_NAME_COUNT = 2 * MAX_SHARDS;
/** Created once: every run of the reconciler looks up the names of all shards, and each new string would be hashed again. */
export const SHARD_NAMES: readonly string[] = Array.from(
  { length: SHARD_NAME_COUNT },
  (_, at) => `${INDEX_NAME}-${at}`,
);
const SHARD_NUMBERS: ReadonlyMap<string, number> = new Map(SHARD_NAMES.map((name, at) => [name, at]));

/** Whether a ConfigMap can be one of our shards. Another ConfigMap with our label belongs to somebody else. */
export function isShardName(name: string): boolean {
  return SHARD_NUMBERS.has(name);
}

/** A ConfigMap of the map, as the API server returns it. */
export interface MapConfigMap {
  readonly metadata: {
    readonly name: string;
    readonly uid?: string;
    readonly resourceVersion?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly data?: Readonly<Record<string, string>>;
}

/** The text that a ConfigMap of the map holds; undefined: an index without its key. A shard without its key is an empty text. */
export function textOf({ metadata: { name }, data }: MapConfigMap): string | undefined {
  return name === INDEX_NAME || name === COMPACT_INDEX_NAME ? data?.[INDEX_KEY] : (data?.[SHARD_KEY] ?? "");
}

/**
 * The version covers the shards too: no reader uses a shard beside an index of another version, so a shard carries none. An index
 * without a version is of version 0. A release that changes the format writes a further index and labels this one `format=1`.
 */
const VERSION = 1;
/** Code of the Reason for an index of another version. */
export const INDEX_VERSION = "index-version";

/** Which shards make up the map. */
export interface MapIndex {
  /** The map's revision: a hash of all shards. */
  readonly revision: string;
  /** Where the targets are; a compact index has none. */
  readonly targets: readonly TargetAddress[];
  /** `name` is the shard's ConfigMap, `revision` the hash of its text, of which a compact index has the first nine digits. */
  readonly shards: ReadonlyArray<{ readonly name: string; readonly revision: string }>;
}

/** Whether a text with this hash is the one that an index names. */
export function isNamedHash(shardHash: string | undefined, revision: string): boolean {
  return revision.length >= HASH_DIGITS && shardHash?.startsWith(revision) === true;
}

/** The text of the index of format 0. Equal indexes give equal texts. A line a shard, so that people can read it. */
export function renderIndex({ revision, targets, shards }: MapIndex): string {
  const lines = shards.map((shard) => JSON.stringify(shard));
  return `{"revision":${JSON.stringify(revision)},"targets":${JSON.stringify(targets)},"shards":[\n${lines.join(",\n")}\n]}\n`;
}

/** A shard in a compact index: three hex digits of its name's number and nine of its hash, as eight characters of base64. */
const NUMBER_DIGITS = 3;
/** 36 bits: they distinguish what the leader wrote under a name from what anybody else did. Nobody can choose both. */
const HASH_DIGITS = 9;
const ENTRY_DIGITS = NUMBER_DIGITS + HASH_DIGITS;
const ENTRIES = /^(?:[\w-]{8})*$/;

const compactSchema = object({ revision: v.string(), shards: v.pipe(v.string(), v.regex(ENTRIES)) });

/** The text of the compact index: eight bytes a shard, since every reader receives all of it with each change. */
export function renderCompactIndex({ revision, shards }: MapIndex): string {
  const digits = shards.map((shard) => {
    const number = SHARD_NUMBERS.get(shard.name) ?? 0;
    return number.toString(16).padStart(NUMBER_DIGITS, "0") + shard.revision.slice(0, HASH_DIGITS);
  });
  const entries = Buffer.from(digits.join(""), "hex").toString("base64url");
  return `${JSON.stringify({ version: VERSION, revision, shards: entries })}\n`;
}

const indexSchema = object({
  revision: v.string(),
  targets: v.array(object({ name: v.string(), clusterIPs: v.array(v.string()) })),
  shards: v.array(object({ name: v.string(), revision: v.string() })),
});

/** Reads an index of format 0. Somebody may have edited it by hand: a Reason says what is wrong with it. */
export function parseIndex(text: string): MapIndex | Reason {
  return parse(text, 0, (value) => attempt(indexSchema, value).value);
}

/** Reads a compact index, as `parseIndex` does. */
export function parseCompactIndex(text: string): MapIndex | Reason {
  return parse(text, VERSION, (value) => {
    const index = attempt(compactSchema, value).value;
    const shards = index && shardsOf(index.shards);
    return shards && { revision: index.revision, targets: [], shards };
  });
}

function parse(text: string, expected: number, read: (value: unknown) => MapIndex | undefined): MapIndex | Reason {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { code: "index-not-json", text: `${INDEX_KEY} does not parse: ${String(error)}` };
  }
  const fields = (typeof value === "object" && value !== null ? value : {}) as Readonly<Record<string, unknown>>;
  const { version = 0 } = fields;
  if (version !== expected) {
    const text = `${INDEX_KEY} has version ${JSON.stringify(version).slice(0, 20)}; this release reads version ${expected}`;
    return { code: INDEX_VERSION, text };
  }
  const parts = expected === 0 ? "revision, targets or shards" : "revision or shards";
  return read(value) ?? { code: "index-malformed", text: `${INDEX_KEY} lacks ${parts}` };
}

function shardsOf(entries: string): MapIndex["shards"] | undefined {
  const digits = Buffer.from(entries, "base64url").toString("hex");
  const shards: Array<MapIndex["shards"][number]> = [];
  for (let at = 0; at < digits.length; at += ENTRY_DIGITS) {
    const name = SHARD_NAMES[Number.parseInt(digits.slice(at, at + NUMBER_DIGITS), 16)];
    if (name === undefined) return undefined;
    shards.push({ name, revision: digits.slice(at + NUMBER_DIGITS, at + ENTRY_DIGITS) });
  }
  return shards;
}
