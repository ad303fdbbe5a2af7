import type { ReportDocument } from "#doctor/report.ts";
import { pause } from "#lib/kube/time.ts";
import { type Channel, componentsChannel, doctorChannel, statusChannel, trafficChannel } from "./channels.ts";
import type { FeedMessage } from "./messages.ts";
import type { DashboardSource } from "./source.ts";

interface FeedOptions {
  readonly source: DashboardSource;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Time between two reads of the status, and of the metrics (`trafficMs`), in a small cluster, milliseconds. */
  readonly everyMs?: number;
  readonly trafficMs?: number;
}

const EVERY_MS = 2_000;
const TRAFFIC_MS = 5_000;
/**
 * The pause after a read is this many times as long as the read, up to `MAX_MS`, so that reads take only a small share
 * of the time. A read of 50,000 names takes the controller and the API server a second.
 */
const SHARE = 20;
const MAX_MS = 60_000;

type Listener = (messages: readonly FeedMessage[]) => void;

/**
 * Reads the cluster at intervals while there are listeners. All listeners share the reads, and get what changed. A
 * failed read is reported, and the next one follows as usual.
 */
export class Feed {
  readonly #begin: FeedMessage;
  readonly #channels: readonly Channel[];
  readonly #listeners = new Set<Listener>();
  readonly #doctor: Channel | undefined;
  #reading: AbortController | undefined;

  constructor({ source, now, everyMs = EVERY_MS, trafficMs = TRAFFIC_MS }: FeedOptions) {
    const { place, components, metrics, doctor } = source;
    this.#begin = { type: "begin", place, canExamine: doctor !== undefined };
    this.#doctor = doctor && doctorChannel(doctor, now);
    this.#channels = [
      statusChannel(source, everyMs, now),
      ...(components === undefined ? [] : [componentsChannel(components)]),
      ...(metrics === undefined ? [] : [trafficChannel(metrics, trafficMs, now)]),
      ...(this.#doctor === undefined ? [] : [this.#doctor]),
    ];
  }

  /**
   * Sends `listener` everything that is known, and then what changes. @returns a function that ends the subscription.
   */
  subscribe(listener: Listener): () => void {
    this.#listeners.add(listener);
    listener([this.#begin, ...this.#channels.flatMap((channel) => channel.whole())]);
    if (this.#reading === undefined) this.#start();
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      this.#reading?.abort();
      this.#reading = undefined;
    };
  }

  /**
   * Runs the doctor now, and sends the findings to all listeners. Throws if it cannot run, or if there is no cluster.
   */
  async examine(): Promise<ReportDocument> {
    const messages = (await this.#doctor?.read(new AbortController().signal)) ?? [];
    for (const listener of this.#listeners) listener(messages);
    const [report] = messages.flatMap((message) => (message.type === "examined" ? [message.report] : []));
    if (report?.known) return report.value;
    throw new Error(report?.reason.text ?? "there is no cluster to examine");
  }

  #start(): void {
    const reading = new AbortController();
    this.#reading = reading;
    // A channel never rejects: its failures are messages.
    for (const channel of this.#channels) void this.#read(channel, reading.signal).catch(() => {});
  }

  async #read(channel: Channel, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const before = performance.now();
      const messages = await channel.read(signal);
      if (signal.aborted) return;
      for (const listener of this.#listeners) listener(messages);
      const tookMs = performance.now() - before;
      await pause(Math.max(channel.everyMs, Math.min(MAX_MS, SHARE * tookMs)), signal);
    }
  }
}
