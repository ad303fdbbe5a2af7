import { describeError } from "../errors/errors.ts";
import { pause } from "../kube/time.ts";
import { StatusChanges } from "./changes.ts";
import type { FeedMessage } from "./messages.ts";
import type { DashboardSource } from "./source.ts";

interface FeedOptions {
  readonly source: DashboardSource;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Between two reads of a small cluster, milliseconds. */
  readonly everyMs?: number;
}

const EVERY_MS = 2_000;
/** A read of 50,000 names takes the controller and the API server a second: reads take a twentieth of the time at most. */
const SHARE = 20;
const MAX_MS = 60_000;

type Listener = (messages: readonly FeedMessage[]) => void;

/**
 * Reads the status again and again while somebody listens, once for all who do, and sends them what changed. A read that fails is
 * reported, and the next one is tried as if it had not.
 */
export class StatusFeed {
  readonly #options: FeedOptions;
  readonly #changes = new StatusChanges();
  readonly #listeners = new Set<Listener>();
  #reading: AbortController | undefined;
  #trouble: FeedMessage | undefined;

  constructor(options: FeedOptions) {
    this.#options = options;
  }

  /** Sends `listener` everything that is known, and then what changes. @returns a function that ends it. */
  subscribe(listener: Listener): () => void {
    const { place, doctor } = this.#options.source;
    this.#listeners.add(listener);
    const begin = { type: "begin", place, canExamine: doctor !== undefined } as const;
    listener([begin, ...this.#changes.whole(), ...(this.#trouble === undefined ? [] : [this.#trouble])]);
    if (this.#reading === undefined) this.#start();
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      this.#reading?.abort();
      this.#reading = undefined;
    };
  }

  #start(): void {
    const reading = new AbortController();
    this.#reading = reading;
    // It cannot fail: `#readOnce` reports what does.
    void this.#read(reading.signal).catch(() => {});
  }

  async #read(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const before = performance.now();
      const messages = await this.#readOnce(signal);
      if (signal.aborted) return;
      for (const listener of this.#listeners) listener(messages);
      const tookMs = performance.now() - before;
      await pause(Math.min(MAX_MS, Math.max(this.#options.everyMs ?? EVERY_MS, SHARE * tookMs)), signal);
    }
  }

  async #readOnce(signal: AbortSignal): Promise<readonly FeedMessage[]> {
    const { source, now } = this.#options;
    try {
      const status = await source.status(signal);
      this.#trouble = undefined;
      return this.#changes.take(status, now());
    } catch (error) {
      this.#trouble = { type: "unknown", at: now(), text: describeError(error) };
      return [this.#trouble];
    }
  }
}
