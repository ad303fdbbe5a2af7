import { shortHash } from "#hostmap/hash.ts";
import { describeError, statusOf } from "#lib/errors/errors.ts";
import { printable } from "#lib/errors/printable.ts";
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
  /** The message. Unprintable characters are escaped, and it is truncated to 1,024 bytes, the API's limit. */
  note: string;
  regarding: Regarding;
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
  /** Refused by the API server, because it still has the same Event, perhaps from an earlier process. */
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

/** Limits of events.k8s.io/v1, bytes. */
const NOTE_BYTES = 1024;
const FIELD_BYTES = 128;

/** Returns a code as the reason of an Event: `front-address-lost` becomes `FrontAddressLost`. */
export function eventReason(code: string): string {
  return code.replace(/(^|-)([a-z])/g, (_match, _dash, letter: string) => letter.toUpperCase());
}

/**
 * Creates a recorder. The name of an Event is a hash of its content. So the API server refuses a repetition as long as
 * it has the Event (one hour by default), whichever process wrote it.
 */
export function createEventRecorder(options: EventRecorderOptions): EventRecorder {
  const { client, log = silentLogger, now = steadyNow } = options;
  const stats = { sent: 0, repeated: 0, dropped: 0, failed: 0 };
  const budget = new EventBudget(now);
  const pending = new Set<Promise<void>>();

  async function send(event: ReturnType<typeof toEvent>): Promise<void> {
    try {
      await client.create(eventsPath(event.metadata.namespace), event);
      stats.sent++;
    } catch (error) {
      if (statusOf(error) === 409) {
        stats.repeated++;
        return;
      }
      stats.failed++;
      log.debug({ reason: event.reason, error: describeError(error) }, "an Event could not be written");
    }
  }

  return {
    record(record) {
      try {
        const event = toEvent(options, record);
        if (!budget.take(record.regarding.namespace ?? options.namespace)) {
          stats.dropped++;
          return;
        }
        const sending = send(event).finally(() => pending.delete(sending));
        pending.add(sending);
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

function toEvent(options: EventRecorderOptions, { type, reason, action, note, regarding }: EventRecord) {
  const namespace = regarding.namespace ?? options.namespace;
  const { namespace: _, ...object } = regarding;
  return {
    apiVersion: "events.k8s.io/v1",
    kind: "Event",
    metadata: {
      name: `switchback-${shortHash(JSON.stringify([type, reason, action, note, regarding]))}`,
      namespace: namespace || "default",
    },
    eventTime: microTime(Date.now()),
    type,
    reason: truncate(reason, FIELD_BYTES),
    action: truncate(action, FIELD_BYTES),
    note: truncate(asSentence(printable(note)), NOTE_BYTES),
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

/** Truncates to `bytes` of UTF-8 without splitting a character. */
function truncate(text: string, bytes: number): string {
  const whole = Buffer.from(text);
  if (whole.length <= bytes) return text;
  const decoder = new TextDecoder("utf-8");
  // In stream mode the decoder does not emit an incomplete character.
  return `${decoder.decode(whole.subarray(0, bytes - 3), { stream: true })}...`;
}
