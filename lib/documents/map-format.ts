import { isDeepStrictEqual, promisify } from "node:util";
import { gunzip, gzip } from "node:zlib";
import { shortHash } from "#hostmap/hash.ts";
import { HostsParser, renderHosts } from "#hostmap/hosts-text.ts";
import { HOLD_KEY, MAP_LOST_KEY, MAP_REVISION_KEY, MAP_TIME_KEY, MAP_VERSION_KEY } from "#hostmap/metadata-keys.ts";
import type { RemovalHold } from "#hostmap/published-names.ts";
import type { HostLine, PublishedMap, Reason } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import { timeSlices, yieldToLoop } from "#lib/kube/time.ts";
import type { ConfigMap } from "./config-map.ts";
import { mapOfLines } from "./published-map.ts";

/**
 * The map is one ConfigMap of our own namespace. Its text is hosts(5), in the order of the first publication, with the
 * namespace that has a name as the comment of its lines. Webhooks, agents and writers of DNS read it, and so does the
 * next leader.
 */
export const MAP_NAME = "switchback-map";
/** The key of the text. */
export const TEXT_KEY = "hosts";
/** The key of the gzipped text, in `binaryData`, if the text has more than `MAX_PLAIN_BYTES`. */
export const GZIP_KEY = "hosts.gz";

/** People can read a text up to this size with kubectl. */
const MAX_PLAIN_BYTES = 256 * 1024;
/** The API server refuses more than 1 MiB of values (`core.MaxSecretSize`), counted without base64. */
const MAX_MAP_BYTES = 1_000_000;
/** Much more than fits into the map when it is not hostile. Names compress to a fifth of their text or less. */
const MAX_TEXT_BYTES = 32 * 1024 * 1024;
/** Number of lines that are rendered and zipped together. Smaller blocks compress worse. */
const BLOCK_LINES = 1_000;
/**
 * Raised when a reader of the earlier format would fail or misread the map. A reader that finds another version keeps
 * its last good map.
 */
const VERSION = "1";

/** The ConfigMap of the map. */
export type MapObject = ConfigMap;

/** What a leader publishes beside the text, for the next leader and for people. */
export interface MapNotes {
  readonly hold?: RemovalHold | undefined;
  /** When the map was lost, in milliseconds since 1970, as long as disputed names wait. */
  readonly lostAt?: number | undefined;
}

/** The content of a publication. */
export interface RenderedMap extends Pick<MapObject, "data" | "binaryData"> {
  /** A hash of the text. Equal revisions mean equal content. */
  readonly revision: string;
  /** The size of the value as readers receive it. */
  readonly bytes: number;
  /** The lines in the text. */
  readonly lines: readonly HostLine[];
  /** Number of names without room. */
  readonly leftOut: number;
  /** All names, with those without room. */
  readonly blocks: readonly Block[];
}

/** Lines that are next to each other. A gzip file may have several members (RFC 1952, 2.2): one for each block. */
interface Block {
  readonly lines: readonly HostLine[];
  readonly text: string;
  zipped?: Buffer;
}

/**
 * Renders the map. If it does not fit into `maxBytes`, the namespaces with the most text lose their latest names, so
 * nobody can fill the map for others. A name without a known namespace counts for a namespace "". Blocks of `last` with
 * the same lines are used again.
 */
export async function renderMap(
  lines: readonly HostLine[],
  last: readonly Block[] = [],
  maxBytes = MAX_MAP_BYTES,
): Promise<RenderedMap> {
  let kept = lines;
  const blocks = blocksOf(lines, last);
  let { size, value } = await rendered(blocks);
  const sizes = size <= maxBytes ? [] : lines.map((line) => renderHosts([line]).length);
  let roomBytes = sizes.reduce((sum, each) => sum + each, 0);
  while (size > maxBytes) {
    // A little less than in proportion, so that a few rounds are enough.
    roomBytes *= (0.97 * maxBytes) / size;
    kept = keptLines(lines, sizes, roomBytes);
    ({ size, value } = await rendered(blocksOf(kept)));
  }
  return { ...value, lines: kept, leftOut: lines.length - kept.length, blocks };
}

function blocksOf(lines: readonly HostLine[], last: readonly Block[] = []): Block[] {
  return Array.from({ length: Math.ceil(lines.length / BLOCK_LINES) }, (_, index) => {
    const [start, end] = [index * BLOCK_LINES, Math.min(lines.length, (index + 1) * BLOCK_LINES)];
    const before = last[index];
    if (before?.lines.length === end - start && before.lines.every((line, at) => line === lines[start + at]))
      return before;
    const own = lines.slice(start, end);
    return { lines: own, text: renderHosts(own) };
  });
}

/** `size`: as the API server counts it, or more if readers would not unzip the whole text (`MAX_TEXT_BYTES`). */
async function rendered(blocks: readonly Block[]) {
  const texts = blocks.map(({ text }) => text);
  const revision = shortHash(texts);
  // The text is ASCII, so its length is its size in bytes.
  const length = texts.reduce((sum, text) => sum + text.length, 0);
  if (length <= MAX_PLAIN_BYTES)
    return { size: length, value: { revision, data: { [TEXT_KEY]: texts.join("") }, bytes: length } };
  for (const block of blocks) block.zipped ??= await promisify(gzip)(block.text);
  const zipped = Buffer.concat(blocks.map((block) => block.zipped ?? Buffer.alloc(0)));
  const text64 = zipped.toString("base64");
  const size = Math.max(zipped.length, Math.ceil((length * MAX_MAP_BYTES) / MAX_TEXT_BYTES));
  return { size, value: { revision, binaryData: { [GZIP_KEY]: text64 }, bytes: text64.length } };
}

/**
 * Returns the lines that fit: each namespace gets the same number of bytes of text at most, for its earliest names. The
 * text counts, not what it has when it is compressed: a name takes little room beside names that are like it, and
 * tenants decide whose names are next to each other (RFC 1951: within 32 KiB).
 */
function keptLines(lines: readonly HostLine[], sizes: readonly number[], roomBytes: number): HostLine[] {
  const totals = new Map<string, number>();
  const ends = lines.map(({ holder = "" }, at) => {
    const end = (totals.get(holder) ?? 0) + (sizes[at] ?? 0);
    totals.set(holder, end);
    return end;
  });
  const share = shareOf([...totals.values()], roomBytes);
  return lines.filter((_, at) => (ends[at] ?? 0) <= share);
}

/** The largest share for which the sum of `min(size, share)` is at most `room`. */
function shareOf(sizes: readonly number[], room: number): number {
  let left = room;
  for (const [index, size] of sizes.toSorted((a, b) => a - b).entries()) {
    const share = left / (sizes.length - index);
    if (size > share) return share;
    left -= size;
  }
  return room;
}

/** Annotations that only some publications have. */
const NOTE_KEYS: readonly string[] = [HOLD_KEY, MAP_LOST_KEY];

/**
 * Returns the annotations of a publication. `time` is RFC 3339. Annotations that somebody else added to the map
 * (`others`) stay.
 */
export function mapAnnotations(
  revision: string,
  { hold, lostAt }: MapNotes,
  time: string,
  others: MapObject["metadata"]["annotations"] = {},
): Record<string, string> {
  return {
    ...Object.fromEntries(Object.entries(others).filter(([key]) => !NOTE_KEYS.includes(key))),
    [MAP_VERSION_KEY]: VERSION,
    [MAP_REVISION_KEY]: revision,
    [MAP_TIME_KEY]: time,
    ...(hold && { [HOLD_KEY]: JSON.stringify(hold) }),
    ...(lostAt !== undefined && { [MAP_LOST_KEY]: new Date(lostAt).toISOString() }),
  };
}

/** Whether the ConfigMap is this publication. */
export function isPublished(object: MapObject | undefined, map: RenderedMap, notes: MapNotes): object is MapObject {
  if (object === undefined) return false;
  const { annotations = {} } = object.metadata;
  const wanted = mapAnnotations(map.revision, notes, annotations[MAP_TIME_KEY] ?? "", annotations);
  const { data = {}, binaryData = {} } = object;
  const found = [annotations, data, binaryData];
  return isDeepStrictEqual(found, [wanted, map.data ?? {}, map.binaryData ?? {}]);
}

/** Codes of Reasons for a map that cannot be used. */
const MAP_MISSING = "map-missing";
export const MAP_VERSION = "map-version";
const MALFORMED = "map-malformed";

/** Returns the text of the map, or the reason why nobody can read it. Somebody may have edited it by hand. */
export async function textOfMap(object: MapObject | undefined): Promise<string | Reason> {
  if (object === undefined) return { code: MAP_MISSING, text: `the ConfigMap ${MAP_NAME} does not exist` };
  const version = object.metadata.annotations?.[MAP_VERSION_KEY] ?? "";
  if (!/^[0-9]{1,9}$/.test(version)) return malformed("has no version");
  if (version !== VERSION)
    return { code: MAP_VERSION, text: `${MAP_NAME} has version ${version}; this release reads version ${VERSION}` };
  const plain = object.data?.[TEXT_KEY];
  const zipped = object.binaryData?.[GZIP_KEY];
  if (plain !== undefined && zipped !== undefined) return malformed(`has both keys, ${TEXT_KEY} and ${GZIP_KEY}`);
  if (plain !== undefined) return plain;
  if (zipped === undefined) return malformed(`has neither key, ${TEXT_KEY} or ${GZIP_KEY}`);
  try {
    const text = await promisify(gunzip)(Buffer.from(zipped, "base64"), { maxOutputLength: MAX_TEXT_BYTES });
    return text.toString("latin1");
  } catch (error) {
    return malformed(`cannot be unzipped: ${describeError(error)}`);
  }
}

/**
 * Parses the map for a reader. A Reason: it is missing, invalid, or not as the leader wrote it. Lines that `last` has
 * are used again. Takes turns with other work on the thread.
 */
export async function parseMap(object: MapObject | undefined, last?: PublishedMap): Promise<PublishedMap | Reason> {
  const { lines, revision, flaw } = await readLines(object, last?.lines);
  return flaw ?? mapOfLines({ revision, ...timeOf(object) }, [...lines.values()], lines);
}

/** The map that a leader has published, as `parseMap` would read it. */
export function mapOf({ revision, lines }: RenderedMap, object: MapObject | undefined): PublishedMap {
  return mapOfLines({ revision, ...timeOf(object) }, lines);
}

function timeOf(object: MapObject | undefined): Pick<PublishedMap, "published"> {
  const published = Date.parse(object?.metadata.annotations?.[MAP_TIME_KEY] ?? "");
  return Number.isFinite(published) ? { published } : {};
}

/**
 * Reads the map for a new leader: every line that parses, and the reason why readers refuse the map, if they do. Then
 * lines may be missing. `lostAt` is in milliseconds since 1970, and `now` at most, also if it cannot be read.
 */
export async function recoverMap(object: MapObject | undefined, now: number) {
  const lost = object?.metadata.annotations?.[MAP_LOST_KEY];
  // The wall clock of the leader that wrote it may be ahead.
  const lostAt = lost === undefined ? undefined : Math.min(now, Date.parse(lost) || now);
  return { ...(await readLines(object)), lostAt };
}

/** The lines that parse, and the reason why readers refuse the map. Lines that are in `known` are used again. */
async function readLines(object: MapObject | undefined, known?: ReadonlyMap<string, HostLine>) {
  const text = await textOfMap(object);
  if (typeof text !== "string") return { lines: new Map<string, HostLine>(), revision: "", flaw: text };
  const revision = shortHash(text);
  const isEdited = revision !== object?.metadata.annotations?.[MAP_REVISION_KEY];
  const flaw = isEdited ? malformed("is not as the leader wrote it: its revision is another one") : undefined;
  return { lines: await parseLines(text, known), revision, flaw };
}

/** Number of lines between two looks at the clock. */
const STEP = 100;

/** Parses every valid line. Takes turns with other work on the thread. */
export async function parseLines(
  text: string,
  known?: ReadonlyMap<string, HostLine>,
): Promise<ReadonlyMap<string, HostLine>> {
  // The caller has hashed the text.
  await yieldToLoop();
  const pause = timeSlices();
  const parser = new HostsParser(known);
  for (let start = 0, index = 0; start < text.length; index += 1) {
    start = parser.read(text, start);
    if (index % STEP === 0) await pause();
  }
  return parser.lines;
}

function malformed(text: string): Reason {
  return { code: MALFORMED, text: `${MAP_NAME} ${text}` };
}
