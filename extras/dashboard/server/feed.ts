import type { ReportDocument } from "#doctor/report.ts";
import { pause } from "#lib/kube/time.ts";
import { type Channel, componentsChannel, doctorChannel, statusChannel, trafficChannel } from "./channels.ts";
import type { FeedMessage } from "./messages.ts";
import type { DashboardSource } from "./source.ts";

interface FeedOptions {
  readonly source: DashboardSource;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Between two reads of the status, and two of the metrics, of a small cluster, milliseconds. */
  readonly everyMs?: number;
  readonly trafficMs?: number;
}

const EVERY_MS = 2_000;
const TRAFFIC_MS = 5_000;
/**
 * A read of 50,000 names takes the controller and the API server a second: reads take a twentieth of the time at most.
 */
const SHARE = 20;
const MAX_MS = 60_000;

type Listener = (messages: readonly FeedMessage[]) => void;

/**
 * Reads the cluster again and again while somebody listens, once for all who do, and sends them what changed. A
 * read that fails is reported, and the next one is tried as if it had not.
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

  /** Sends `listener` everything that is known, and then what changes. @returns a function that ends it. */
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

  /** Runs the doctor now, and sends all listeners what it finds. Throws if it cannot run, or there is no cluster. */
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
    // A channel does not fail: it reports what does.
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
