import { shortHash } from "#hostmap/hash.ts";
import { describeError, statusOf } from "#lib/errors/errors.ts";
import { printable } from "#lib/errors/printable.ts";
import { type Logger, silentLogger } from "#lib/telemetry/log.ts";
import type { KubeClient } from "./client.ts";
import { microTime } from "./lease.ts";
import { resourcePath } from "./paths.ts";
import { steadyNow } from "./time.ts";

/** The object an Event is about. */
interface Regarding {
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
  /** What names the Event: of two Events with the same key, the API server refuses the second. Default: its content. */
  key?: string;
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

export interface EventRecorder {
  /** Never throws and never blocks: Events are best effort. Beyond the budget of the namespace they are dropped. */
  record(event: EventRecord): void;
  /** How long an Event of a namespace should wait if it can, milliseconds. */
  waitMs(namespace: string): number;
}

/** Limits of events.k8s.io/v1, bytes. */
const NOTE_BYTES = 1024;
const FIELD_BYTES = 128;

/** A namespace has a burst, then one Event per interval, so that none uses another's. etcd keeps Events for an hour. */
const BURST = 25;
const INTERVAL_MS = 5_000;
/** At this many namespaces, those that have their whole burst again are forgotten. */
const MAX_NAMESPACES = 1_000;

/** Returns a code as the reason of an Event: `front-address-lost` becomes `FrontAddressLost`. */
export function eventReason(code: string): string {
  return code.replace(/(^|-)([a-z])/g, (_match, _dash, letter: string) => letter.toUpperCase());
}

/**
 * Creates a recorder. The name of an Event is a hash of its key or content. So the API server refuses a repetition as
 * long as it has the Event (one hour by default), whichever process wrote it.
 */
export function createEventRecorder(options: EventRecorderOptions): EventRecorder {
  const { client, log = silentLogger, now = steadyNow } = options;
  /** By namespace: when it has its whole burst again. */
  const fullAt = new Map<string, number>();

  function waitMs(namespace: string): number {
    return Math.max(0, (fullAt.get(namespace) ?? 0) - now() - (BURST - 1) * INTERVAL_MS);
  }

  function spend(namespace: string): void {
    if (fullAt.size >= MAX_NAMESPACES) for (const [each, at] of fullAt) if (at <= now()) fullAt.delete(each);
    fullAt.set(namespace, Math.max(now(), fullAt.get(namespace) ?? 0) + INTERVAL_MS);
  }

  async function send(record: EventRecord): Promise<void> {
    try {
      const event = toEvent(options, record);
      const { namespace = options.namespace } = record.regarding;
      if (waitMs(namespace) > 0) return;
      spend(namespace);
      await client.create(eventsPath(event.metadata.namespace), event);
    } catch (error) {
      // The API server still has the same Event, perhaps from an earlier process.
      if (statusOf(error) === 409) return;
      log.debug({ error: describeError(error) }, "an Event could not be written");
    }
  }

  return { record: (record) => void send(record), waitMs };
}

function eventsPath(namespace: string): string {
  return resourcePath({ group: "events.k8s.io", version: "v1", namespace, resource: "events" });
}

function toEvent(options: EventRecorderOptions, { type, reason, action, note, regarding, key }: EventRecord) {
  const namespace = regarding.namespace ?? options.namespace;
  const { namespace: _, ...object } = regarding;
  return {
    apiVersion: "events.k8s.io/v1",
    kind: "Event",
    metadata: {
      name: `switchback-${shortHash(key ?? JSON.stringify([type, reason, action, note, regarding]))}`,
      namespace: namespace || "default",
    },
    eventTime: microTime(Date.now()),
    type,
    reason: truncate(reason, FIELD_BYTES),
    action: truncate(action, FIELD_BYTES),
    note: truncate(printable(note), NOTE_BYTES),
    reportingController: `switchback.dev/${options.component}`,
    reportingInstance: truncate(options.instance, FIELD_BYTES),
    regarding: namespace === "" ? object : { ...object, namespace },
  };
}

/** Truncates to `bytes` of UTF-8 without splitting a character. */
function truncate(text: string, bytes: number): string {
  const whole = Buffer.from(text);
  if (whole.length <= bytes) return text;
  const decoder = new TextDecoder("utf-8");
  // In stream mode the decoder does not emit an incomplete character.
  return `${decoder.decode(whole.subarray(0, bytes - 3), { stream: true })}...`;
}
