import * as v from "valibot";
import { MAP_KEY } from "#hostmap/metadata-keys.ts";
import type { Reason, TargetAddress } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import { object } from "#lib/errors/schemas.ts";
import { attempt } from "#lib/errors/validation.ts";
import { MAX_SHARDS } from "./shards.ts";

/**
 * The map is published in ConfigMaps: shards, whose names come from a pool, and the index that names them. Webhooks
 * and agents watch these. Another ConfigMap has the state that the leader keeps: the addresses of the targets, and a
 * removal that is held. The next leader and some commands read it.
 */
export const INDEX_NAME = "switchback-hosts-index";
/** The only key of the index. */
export const INDEX_KEY = "index.json";
export const STATE_NAME = "switchback-hosts";
/** The only key of the state. */
export const STATE_KEY = "state.json";
/** The only key of a shard's ConfigMap. */
export const SHARD_KEY = "hosts";
/** Labels of all these ConfigMaps. `MAP_SELECTOR` lists them. */
export const MAP_LABELS: Readonly<Record<string, string>> = { [MAP_KEY]: "hosts" };
export const MAP_SELECTOR = `${MAP_KEY}=hosts`;

/**
 * Number of names for shards. It is twice `MAX_SHARDS`, so that the whole map can be written beside the current one.
 * RBAC names each of them.
 */
export const SHARD_NAME_COUNT = 2 * MAX_SHARDS;
/**
 * Created once. Every run of the reconciler looks up the names of all shards, and would have to hash new strings
 * again.
 */
export const SHARD_NAMES: readonly string[] = Array.from(
  { length: SHARD_NAME_COUNT },
  (_, at) => `switchback-hosts-${at}`,
);
const SHARD_NUMBERS: ReadonlyMap<string, number> = new Map(SHARD_NAMES.map((name, at) => [name, at]));

/** Whether a ConfigMap can be one of our shards. Any other ConfigMap with our label belongs to somebody else. */
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

/**
 * Returns the text in a ConfigMap of the map. Undefined if its key is missing. For a shard without its key, it is "".
 */
export function textOf({ metadata: { name }, data }: MapConfigMap): string | undefined {
  if (name === INDEX_NAME) return data?.[INDEX_KEY];
  return name === STATE_NAME ? data?.[STATE_KEY] : (data?.[SHARD_KEY] ?? "");
}

/**
 * The version of the index also covers the shards. No reader uses a shard with an index of another version, so a
 * shard has no version. A release that changes the format must write its index under another name, and leave this one
 * to earlier readers.
 */
const VERSION = 1;
/** Code of the Reason for an index or a state of another version. */
export const INDEX_VERSION = "index-version";

/** The shards that make up the map. */
export interface MapIndex {
  /** The map's revision: a hash of all shards. */
  readonly revision: string;
  /** `name` is the shard's ConfigMap, `revision` the first nine digits of the hash of its text. */
  readonly shards: ReadonlyArray<{ readonly name: string; readonly revision: string }>;
}

/** Whether a text with this hash is the one that the index names. */
export function isNamedHash(shardHash: string | undefined, revision: string): boolean {
  return revision.length >= HASH_DIGITS && shardHash?.startsWith(revision) === true;
}

/**
 * A shard in the index: three hex digits for the number in its name and nine of its hash, as eight characters of
 * base64.
 */
const NUMBER_DIGITS = 3;
/** 36 bits. They distinguish a text that the leader wrote from one of somebody else. Nobody can choose both. */
const HASH_DIGITS = 9;
const ENTRY_DIGITS = NUMBER_DIGITS + HASH_DIGITS;
const ENTRIES = /^(?:[\w-]{8})*$/;

export const indexSchema = object({ revision: v.string(), shards: v.pipe(v.string(), v.regex(ENTRIES)) });

/**
 * Returns the text of the index. It has eight bytes per shard, because every reader receives all of it with each
 * change.
 */
export function renderIndex({ revision, shards }: MapIndex): string {
  const digits = shards.map((shard) => {
    const number = SHARD_NUMBERS.get(shard.name) ?? 0;
    return number.toString(16).padStart(NUMBER_DIGITS, "0") + shard.revision.slice(0, HASH_DIGITS);
  });
  const entries = Buffer.from(digits.join(""), "hex").toString("base64url");
  return `${JSON.stringify({ version: VERSION, revision, shards: entries })}\n`;
}

/** Parses an index. Somebody may have edited it by hand: a Reason says what is wrong. */
export function parseIndex(text: string): MapIndex | Reason {
  return parse(INDEX_KEY, "revision or shards", text, (value) => {
    const index = attempt(indexSchema, value).value;
    const shards = index && shardsOf(index.shards);
    return shards && { revision: index.revision, shards };
  });
}

/** The state that the leader keeps beside the map. */
export interface MapState {
  /** The addresses of the targets. Pods may have them. */
  readonly targets: readonly TargetAddress[];
}

export const stateSchema = object({ targets: v.array(object({ name: v.string(), clusterIPs: v.array(v.string()) })) });

/**
 * Returns the text of the state. Equal states give equal texts. It has one line per target, so that people can read
 * it.
 */
export function renderState({ targets }: MapState): string {
  const lines = targets.map((target) => JSON.stringify(target));
  return `{"version":${VERSION},"targets":[\n${lines.join(",\n")}\n]}\n`;
}

/** Parses a state, like `parseIndex`. */
export function parseState(text: string): MapState | Reason {
  return parse(STATE_KEY, "targets", text, (value) => attempt(stateSchema, value).value);
}

function parse<T>(key: string, parts: string, text: string, read: (value: unknown) => T | undefined): T | Reason {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { code: "index-not-json", text: `${key} is not JSON: ${describeError(error)}` };
  }
  const fields = (typeof value === "object" && value !== null ? value : {}) as Readonly<Record<string, unknown>>;
  const { version = null } = fields;
  if (version !== VERSION) {
    const text = `${key} has version ${JSON.stringify(version).slice(0, 20)}; this release reads version ${VERSION}`;
    return { code: INDEX_VERSION, text };
  }
  return read(value) ?? { code: "index-malformed", text: `${key} has no valid ${parts}` };
}

/**
 * Returns undefined if an entry is not a shard, or if there are more than a leader writes, which would leave no free
 * names.
 */
function shardsOf(entries: string): MapIndex["shards"] | undefined {
  const digits = Buffer.from(entries, "base64url").toString("hex");
  if (digits.length > MAX_SHARDS * ENTRY_DIGITS) return undefined;
  const shards: Array<MapIndex["shards"][number]> = [];
  for (let at = 0; at < digits.length; at += ENTRY_DIGITS) {
    const name = SHARD_NAMES[Number.parseInt(digits.slice(at, at + NUMBER_DIGITS), 16)];
    if (name === undefined) return undefined;
    shards.push({ name, revision: digits.slice(at + NUMBER_DIGITS, at + ENTRY_DIGITS) });
  }
  return shards;
}
