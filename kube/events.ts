import { describeError } from "../errors/errors.ts";
import { type Logger, silentLogger } from "../telemetry/log.ts";
import type { KubeClient } from "./client.ts";
import { microTime } from "./lease-record.ts";
import { resourcePath } from "./paths.ts";
import { steadyNow } from "./time.ts";

/** The object an Event is about. */
export interface Regarding {
  apiVersion: string;
  kind: string;
  name: string;
  /** Left out: our own namespace. Empty: the object is in none, and its Events are in `default`, as is the custom. */
  namespace?: string;
  uid?: string;
}

export interface EventRecord {
  type: "Normal" | "Warning";
  /** Why, as one CamelCase word: `RemovalHeldBack`. */
  reason: string;
  /** What was done or not done, as one CamelCase word: `PublishMap`. */
  action: string;
  /** For people. Control characters are replaced and it is cut to 1,024 bytes, the API's limit. */
  note: string;
  regarding: Regarding;
}

interface EventRecorderOptions {
  client: Pick<KubeClient, "create">;
  /** Which part of Switchback speaks: `controller`. */
  component: string;
  /** Name of the pod. */
  instance: string;
  /** Our own namespace. */
  namespace: string;
  log?: Logger;
  /** Milliseconds, never going back. */
  now?: () => number;
}

/** Counts that only grow. */
interface EventStats {
  /** Accepted by the API server. */
  readonly sent: number;
  /** Held back because the same had been said within the window. */
  readonly repeated: number;
  /** Thrown away: too many at once. */
  readonly dropped: number;
  /** Refused by the API server, or not reaching it. */
  readonly failed: number;
}

export interface EventRecorder {
  /** Never throws and never waits: an Event is a courtesy. */
  record(event: EventRecord): void;
  readonly stats: EventStats;
  /** Resolves when what was recorded so far is sent or lost. */
  flush(): Promise<void>;
}

/** The same Event is not sent again within this; the next after it tells how often it was seen meanwhile. */
const WINDOW_MS = 10 * 60_000;
/** What was said is remembered for this many different Events. */
const REMEMBERED = 1000;
/** A burst of this many, then one every so often: etcd keeps each for an hour. */
const BURST = 25;
const REFILL_MS = 5_000;
/** Limits of events.k8s.io/v1, bytes. */
const NOTE_BYTES = 1024;
const WORD_BYTES = 128;

/** A code as the reason of an Event: `front-address-lost` is `FrontAddressLost`. */
export function eventReason(code: string): string {
  return code.replace(/(^|-)([a-z])/g, (_match, _dash, letter: string) => letter.toUpperCase());
}

export function createEventRecorder(options: EventRecorderOptions): EventRecorder {
  const { client, log = silentLogger, now = steadyNow } = options;
  const stats = { sent: 0, repeated: 0, dropped: 0, failed: 0 };
  const said = createMemory(now);
  const takeToken = createBucket(now);
  const pending = new Set<Promise<void>>();

  async function send(key: string, event: ReturnType<typeof toEvent>): Promise<void> {
    try {
      await client.create(eventsPath(event.metadata.namespace), event);
      stats.sent++;
    } catch (error) {
      stats.failed++;
      // It was not said after all.
      said.forget(key);
      log.debug({ reason: event.reason, error: describeError(error) }, "an Event could not be written");
    }
  }

  function recordOne(record: EventRecord): void {
    const key = JSON.stringify([record.type, record.reason, record.action, record.note, record.regarding]);
    if (said.repeats(key)) {
      stats.repeated++;
      return;
    }
    if (!takeToken()) {
      stats.dropped++;
      return;
    }
    const event = toEvent(options, record, said.remember(key));
    const sending = send(key, event).finally(() => pending.delete(sending));
    pending.add(sending);
  }

  return {
    record(record) {
      try {
        recordOne(record);
      } catch (error) {
        stats.failed++;
        log.debug({ error: describeError(error) }, "an Event could not be made");
      }
    },
    get stats() {
      return { ...stats };
    },
    async flush() {
      await Promise.all(pending);
    },
  };
}

function eventsPath(namespace: string): string {
  return resourcePath({ group: "events.k8s.io", version: "v1", namespace, resource: "events" });
}

function toEvent(options: EventRecorderOptions, record: EventRecord, repeats: number) {
  const { type, reason, action, note } = record;
  const namespace = record.regarding.namespace ?? options.namespace;
  const { namespace: _, ...object } = record.regarding;
  const suffix = repeats === 0 ? "" : ` (${repeats} more times since it was last reported)`;
  return {
    apiVersion: "events.k8s.io/v1",
    kind: "Event",
    metadata: { generateName: "switchback-", namespace: namespace || "default" },
    eventTime: microTime(Date.now()),
    type,
    reason: cut(reason, WORD_BYTES),
    action: cut(action, WORD_BYTES),
    note: cut(printable(note), NOTE_BYTES - suffix.length) + suffix,
    reportingController: `switchback.dev/${options.component}`,
    reportingInstance: cut(options.instance, WORD_BYTES),
    regarding: namespace === "" ? object : { ...object, namespace },
  };
}

/** A note may quote what tenants wrote, and ends up in terminals. */
function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, "?");
}

/** At most `bytes` of UTF-8, no character cut in two. */
function cut(text: string, bytes: number): string {
  const whole = Buffer.from(text);
  if (whole.length <= bytes) return text;
  const decoder = new TextDecoder("utf-8");
  // In stream mode the decoder keeps an unfinished character to itself.
  return `${decoder.decode(whole.subarray(0, bytes - 3), { stream: true })}...`;
}

/** What was said when, oldest first. */
function createMemory(now: () => number) {
  const entries = new Map<string, { until: number; repeats: number }>();
  return {
    /** Whether `key` was said within the window; counts it if so. */
    repeats(key: string): boolean {
      const entry = entries.get(key);
      if (entry === undefined || now() >= entry.until) return false;
      entry.repeats++;
      return true;
    },
    /** Begins a new window. Gives how often `key` was held back in the last one. */
    remember(key: string): number {
      const repeats = entries.get(key)?.repeats ?? 0;
      entries.delete(key);
      entries.set(key, { until: now() + WINDOW_MS, repeats: 0 });
      if (entries.size > REMEMBERED) entries.delete(entries.keys().next().value ?? key);
      return repeats;
    },
    forget(key: string): void {
      entries.delete(key);
    },
  };
}

/** A token bucket, full at first. */
function createBucket(now: () => number): () => boolean {
  let tokens = BURST;
  let filledAt = now();
  return () => {
    tokens = Math.min(BURST, tokens + (now() - filledAt) / REFILL_MS);
    filledAt = now();
    if (tokens < 1) return false;
    tokens--;
    return true;
  };
}
