import * as v from "valibot";
import type { Reason } from "#hostmap/types.ts";
import { IS_WORD, integer, number, object } from "#lib/errors/schemas.ts";
import { attempt } from "#lib/errors/validation.ts";

// A publisher's report about itself: what it has published, since when, and why not more. There is one ConfigMap per
// publisher in Switchback's namespace. The publisher writes it. `status`, `doctor` and `uninstall` read it.

/** Raised when a reader of the earlier format would fail or misread the document. */
const FORMAT = 1;

/** Label of the ConfigMaps. Its value is the publisher's name. */
export const PUBLISHER_LABEL = "switchback.dev/publisher";
export const STATE_KEY = "state.json";
/** Key of the original content, before the publisher wrote there for the first time. */
export const ORIGINAL_KEY = "original";

/** Much more than is ever written. Longer text is not ours and is not parsed. */
const MAX_BYTES = 100_000;
const MAX_TEXT = 2_000;
/** A text of `min` to `max` characters. */
function textOf(min: number, max: number) {
  return v.pipe(v.string(), v.minLength(min), v.maxLength(max));
}
/** Milliseconds since 1970, in the range of Date. */
const time = number(0, 8.64e15);
const reasonSchema = object({ code: v.pipe(textOf(1, 100), v.metadata(IS_WORD)), text: textOf(0, MAX_TEXT) });
const takenBackSchema = object({ at: time, by: v.optional(textOf(0, 300)) });

export const stateSchema = object({
  format: v.literal(FORMAT),
  publisher: textOf(1, 100),
  /** The place where it writes, as text for people. */
  place: textOf(0, MAX_TEXT),
  /** Since when something of ours has been there without a gap. Missing if there is nothing. */
  since: v.optional(time),
  /** The written map, and when it was written. `names` of its names are written, and `leftOut` others are not. */
  revision: v.optional(textOf(0, 100)),
  publishedAt: v.optional(time),
  names: integer(0),
  leftOut: integer(0),
  /** The newest map that was seen to reach its readers, and when it was seen. */
  answered: v.optional(object({ revision: textOf(0, 100), at: time })),
  /** Since when the newest map has not reached its readers. */
  behindSince: v.optional(time),
  problem: v.optional(reasonSchema),
  /** When somebody removed the written names, and who did, oldest first. */
  takenBack: v.pipe(v.array(takenBackSchema), v.maxLength(20)),
  /** Somebody removed the names too often. Nothing is written until the publisher is enabled again. */
  stopped: v.optional(v.literal(1)),
  /** Nothing is written before this time. */
  pausedUntil: v.optional(time),
  /** Since when it is being removed. Nothing is written. */
  leaving: v.optional(time),
});

export type PublisherState = v.InferOutput<typeof stateSchema>;

/** The name of a publisher's ConfigMap. */
export function publisherStateName(publisher: string): string {
  return `switchback-publisher-${publisher}`;
}

export function emptyPublisherState(publisher: string, place: string): PublisherState {
  return { format: FORMAT, publisher, place, names: 0, leftOut: 0, takenBack: [] };
}

export function renderPublisherState(state: PublisherState): string {
  return JSON.stringify(state);
}

/** Parses a document. Returns a Reason if it is of another format, or not ours. */
export function parsePublisherState(text: string | undefined): PublisherState | Reason {
  const unreadable = (why: string): Reason => ({ code: "publisher-state-unreadable", text: why });
  if (text === undefined) return unreadable(`the ConfigMap has no key ${STATE_KEY}`);
  if (text.length > MAX_BYTES) return unreadable("the document is too long");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return unreadable("the document is not JSON");
  }
  const read = attempt(stateSchema, value);
  if (read.flaw === undefined) return read.value;
  return unreadable(`${read.flaw.path.join(".") || "document"}: ${read.flaw.message}`);
}
