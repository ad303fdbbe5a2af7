import { hasCode, SwitchbackError } from "#lib/errors/errors.ts";
import { pause } from "#lib/kube/time.ts";
import { NO_ANSWER, NOT_OURS, type Publisher, type Readers } from "./publisher.ts";
import { emptyPublisherState } from "./publisher-state.ts";
import type { PublisherStateStore } from "./publisher-state-store.ts";

interface RemoveOptions {
  readonly publisher: Publisher;
  readonly store: Pick<PublisherStateStore, "read" | "write">;
  /** Whether this process can ask as readers do. */
  readonly canAsk: boolean;
  readonly timeoutMs: number;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly say: (line: string) => void;
  /** Time between two rounds of questions; shorter only in tests. */
  readonly pollMs?: number;
  /** How long to wait if this process cannot ask, or gets no answer; shorter only in tests. */
  readonly blindMs?: number;
}

const POLL_MS = 2_000;
const SAY_MS = 20_000;
/**
 * A kubelet updates a ConfigMap in its pods within 90 seconds. CoreDNS reads it every 30 to 45 seconds. Caches keep
 * an answer for its TTL. If the cluster's DNS cannot reach the servers behind it, as in a closed network, it gives no
 * answer for a missing name.
 */
const BLIND_MS = 150_000;
/** Number of successive rounds of questions that must be answered, and without a name of ours. */
const ROUNDS = 3;

/**
 * Takes out what a publisher has written, whether or not it runs: a mark in its document keeps it from writing again.
 * Resolves when readers no longer get any of it. Throws `still-held` if they still do after `timeoutMs`.
 */
export async function removePublisher(options: RemoveOptions): Promise<void> {
  const { publisher, say } = options;
  await markLeaving(options);
  await publisher.remove();
  say(`${publisher.name}: taken out of the ${publisher.place}`);
  const { readers } = publisher;
  if (readers === undefined) return;
  say(`${publisher.name}: the cluster's DNS has stopped answering, ${await untilForgotten(options, readers)}`);
}

/** Resolves when readers no longer get what was taken out. @returns how that is known, for people. */
async function untilForgotten(options: RemoveOptions, readers: Readers): Promise<string> {
  const { publisher, say, now, canAsk, timeoutMs, pollMs = POLL_MS, blindMs = BLIND_MS } = options;
  const began = now();
  const listener = new Listener(began, blindMs);
  let said = began;
  for (;;) {
    await pause(pollMs);
    // The publisher may have been writing while the mark was made.
    await publisher.remove();
    const how = listener.hear(canAsk ? await readers.ask() : undefined, now());
    if (how !== undefined) return how;
    if (canAsk && now() - began > timeoutMs) {
      const problem = "the cluster's DNS still answers with what was taken out, or not at all";
      const message = `${publisher.name}: ${problem}. Try again`;
      throw new SwitchbackError("still-held", message);
    }
    if (now() - said < SAY_MS) continue;
    said = now();
    say(`${publisher.name}: waiting until the cluster's DNS has stopped answering`);
  }
}

/** Decides from the answers to readers whether the DNS has forgotten what was taken out. */
class Listener {
  readonly #blindMs: number;
  /** Time since which no answer was ours. */
  #unheardSince: number;
  /** Number of successive rounds in which all questions were answered, with nothing of ours. */
  #quiet = 0;

  constructor(began: number, blindMs: number) {
    this.#unheardSince = began;
    this.#blindMs = blindMs;
  }

  /**
   * `answers`: undefined if this process cannot ask. @returns how it is known that the DNS has forgotten, for people;
   * undefined while that is not known.
   */
  hear(answers: ReadonlySet<string> | undefined, now: number): string | undefined {
    const all = [...(answers ?? [NO_ANSWER])];
    this.#quiet = all.every((answer) => answer === NOT_OURS) ? this.#quiet + 1 : 0;
    if (this.#quiet === ROUNDS) return "measured by asking";
    if (all.some((answer) => answer !== NOT_OURS && answer !== NO_ANSWER)) this.#unheardSince = now;
    if (now - this.#unheardSince < this.#blindMs) return undefined;
    return `by waiting: ${answers === undefined ? "nobody can ask it from here" : "it gives no answer"}`;
  }
}

async function markLeaving({ publisher, store, now }: RemoveOptions): Promise<void> {
  for (;;) {
    const stored = await store.read();
    if (stored === undefined) return;
    const { state } = stored;
    const known = "code" in state ? emptyPublisherState(publisher.name, publisher.place) : state;
    const { revision: _, since: _since, publishedAt: _at, behindSince: _behind, answered: _answered, ...rest } = known;
    try {
      await store.write({ ...rest, names: 0, leaving: now() }, stored.original, stored);
      return;
    } catch (error) {
      if (!(hasCode(error, "kube-status") && error.status === 409)) throw error;
    }
  }
}
