import { shortHash } from "#hostmap/hash.ts";
import { describeError, statusOf } from "#lib/errors/errors.ts";
import { type Logger, silentLogger } from "#lib/telemetry/log.ts";
import type { KubeClient } from "./client.ts";
import { EventBudget } from "./event-budget.ts";
import { microTime } from "./lease.ts";
import { resourcePath } from "./paths.ts";
import { steadyNow } from "./time.ts";

/** The object an Event is about. */
export interface Regarding {
  apiVersion: string;
  kind: string;
  name: string;
  /**
   * Default: the recorder's namespace. Empty for a cluster-scoped object, whose Events are in `default` by
   * convention.
   */
  namespace?: string;
  uid?: string;
}

export interface EventRecord {
  type: "Normal" | "Warning";
  /** The reason in CamelCase: `RemovalHeldBack`. */
  reason: string;
  /** The action in CamelCase: `PublishMap`. */
  action: string;
  /** The message. Control characters are replaced, and it is truncated to 1,024 bytes, the API's limit. */
  note: string;
  regarding: Regarding;
  /**
   * The Event reports a state, which a later leader finds as well. It is not written again while the API server still
   * has the same Event from an earlier process.
   */
  once?: true;
}

interface EventRecorderOptions {
  client: Pick<KubeClient, "create">;
  /** The reporting component: `controller`. */
  component: string;
  /** Name of the pod. */
  instance: string;
  /** The namespace of Switchback. */
  namespace: string;
  log?: Logger;
  /** A monotonic clock, milliseconds. */
  now?: () => number;
}

/** Counters. They never decrease. */
interface EventStats {
  /** Accepted by the API server. */
  readonly sent: number;
  /** Not sent, because the same Event was sent within the window, or still exists from an earlier process. */
  readonly repeated: number;
  /** Dropped, because the budget of the namespace or of all namespaces was used up. */
  readonly dropped: number;
  /** Rejected by the API server, or the API server was unreachable. */
  readonly failed: number;
}

export interface EventRecorder {
  /** Never throws and never blocks: Events are best effort. */
  record(event: EventRecord): void;
  /** How long an Event that can wait should wait, milliseconds. Without a namespace: an Event of any namespace. */
  waitMs(namespace?: string): number;
  readonly stats: EventStats;
  /** Resolves when all recorded Events are sent or have failed. */
  flush(): Promise<void>;
}

/** The same Event is sent once per window. The next one contains the number of repetitions. */
const WINDOW_MS = 10 * 60_000;
/** Number of different Events that are remembered for deduplication. */
const MAX_REMEMBERED = 1000;
/** Limits of events.k8s.io/v1, bytes. */
const NOTE_BYTES = 1024;
const FIELD_BYTES = 128;

/** Returns a code as the reason of an Event: `front-address-lost` becomes `FrontAddressLost`. */
export function eventReason(code: string): string {
  return code.replace(/(^|-)([a-z])/g, (_match, _dash, letter: string) => letter.toUpperCase());
}

export function createEventRecorder(options: EventRecorderOptions): EventRecorder {
  const { client, log = silentLogger, now = steadyNow } = options;
  const stats = { sent: 0, repeated: 0, dropped: 0, failed: 0 };
  const recent = createRecentEvents(now);
  const budget = new EventBudget(now);
  const pending = new Set<Promise<void>>();

  async function send(key: string, event: ReturnType<typeof toEvent>, isNamed: boolean): Promise<void> {
    try {
      await client.create(eventsPath(event.metadata.namespace), event);
      stats.sent++;
    } catch (error) {
      if (isNamed && statusOf(error) === 409) {
        stats.repeated++;
        return;
      }
      stats.failed++;
      // It was not sent, so it must not count as a repetition.
      recent.forget(key);
      log.debug({ reason: event.reason, error: describeError(error) }, "an Event could not be written");
    }
  }

  function recordOne(record: EventRecord): void {
    const key = JSON.stringify([record.type, record.reason, record.action, record.note, record.regarding]);
    if (recent.repeats(key)) {
      stats.repeated++;
      return;
    }
    if (!budget.take(record.regarding.namespace ?? options.namespace)) {
      stats.dropped++;
      return;
    }
    const name = record.once && !recent.knows(key) ? `switchback-${shortHash(key)}` : undefined;
    const event = toEvent(options, record, { name, repeats: recent.remember(key) });
    const sending = send(key, event, name !== undefined).finally(() => pending.delete(sending));
    pending.add(sending);
  }

  return {
    record(record) {
      try {
        recordOne(record);
      } catch (error) {
        stats.failed++;
        log.debug({ error: describeError(error) }, "an Event could not be built");
      }
    },
    waitMs: (namespace) => budget.waitMs(namespace),
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

function toEvent(
  options: EventRecorderOptions,
  record: EventRecord,
  { name, repeats }: { readonly name: string | undefined; readonly repeats: number },
) {
  const { type, reason, action, note } = record;
  const namespace = record.regarding.namespace ?? options.namespace;
  const { namespace: _, ...object } = record.regarding;
  const suffix = repeats === 0 ? "" : ` (${repeats} more times since it was last reported)`;
  return {
    apiVersion: "events.k8s.io/v1",
    kind: "Event",
    metadata: {
      ...(name === undefined ? { generateName: "switchback-" } : { name }),
      namespace: namespace || "default",
    },
    eventTime: microTime(Date.now()),
    type,
    reason: truncate(reason, FIELD_BYTES),
    action: truncate(action, FIELD_BYTES),
    note: truncate(asSentence(printable(note)), NOTE_BYTES - suffix.length) + suffix,
    reportingController: `switchback.dev/${options.component}`,
    reportingInstance: truncate(options.instance, FIELD_BYTES),
    regarding: namespace === "" ? object : { ...object, namespace },
  };
}

/**
 * Formats a note like Kubernetes' own, "Scaled up replica set ...": with a capital, unless the first word is a name
 * such as a hostname.
 */
function asSentence(note: string): string {
  return note.replace(/^[a-z](?=[a-z]* )/, (letter) => letter.toUpperCase());
}

/** Makes a note safe: it may quote tenants' input and be printed in a terminal. */
function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, "?");
}

/** Truncates to `bytes` of UTF-8 without splitting a character. */
function truncate(text: string, bytes: number): string {
  const whole = Buffer.from(text);
  if (whole.length <= bytes) return text;
  const decoder = new TextDecoder("utf-8");
  // In stream mode the decoder does not emit an incomplete character.
  return `${decoder.decode(whole.subarray(0, bytes - 3), { stream: true })}...`;
}

/** Recently sent Events, oldest first. */
function createRecentEvents(now: () => number) {
  const entries = new Map<string, { until: number; repeats: number }>();
  return {
    /** Whether `key` was sent within the window; if so, counts a repetition. */
    repeats(key: string): boolean {
      const entry = entries.get(key);
      if (entry === undefined || now() >= entry.until) return false;
      entry.repeats++;
      return true;
    },
    /** Starts a new window. Returns the number of repetitions in the last one. */
    remember(key: string): number {
      const repeats = entries.get(key)?.repeats ?? 0;
      entries.delete(key);
      entries.set(key, { until: now() + WINDOW_MS, repeats: 0 });
      if (entries.size > MAX_REMEMBERED) entries.delete(entries.keys().next().value ?? key);
      return repeats;
    },
    /** Whether `key` was sent. The memory is limited. */
    knows: (key: string): boolean => entries.has(key),
    forget(key: string): void {
      entries.delete(key);
    },
  };
}
