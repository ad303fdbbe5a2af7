import { emptyPublisherState } from "#lib/documents/publisher-state.ts";
import type { PublisherStateStore } from "#lib/documents/publisher-state-store.ts";
import { hasCode, SwitchbackError } from "#lib/errors/errors.ts";
import { pause } from "#lib/kube/time.ts";
import { NO_ANSWER, NOT_OURS, type Publisher, type Readers } from "./publisher.ts";

interface RemoveOptions {
  readonly publisher: Publisher;
  readonly store: Pick<PublisherStateStore, "read" | "write">;
  /** Whether this process can ask as readers do. */
  readonly canAsk: boolean;
  readonly timeoutMs: number;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly say: (line: string) => void;
  /** Between two looks; shorter only in tests. */
  readonly pollMs?: number;
  /** How long to wait where nobody can ask, or gets no answer; shorter only in tests. */
  readonly blindMs?: number;
}

const POLL_MS = 2_000;
const SAY_MS = 20_000;
/**
 * A kubelet hands a ConfigMap to its pods within 90 seconds, CoreDNS looks every 30 to 45; caches keep an answer
 * for its TTL. Where the servers behind the cluster's DNS are out of reach, as in a closed network, it gives no
 * answer for a name that is not there.
 */
const BLIND_MS = 150_000;
/** Rounds of questions in a row that nobody answers with a name of ours. */
const ROUNDS = 3;

/**
 * Takes out what a publisher has written, whether or not it runs: a mark in its document keeps it from writing
 * again. Resolves when readers get nothing of it any more. Throws `still-held` if they still do after `timeoutMs`.
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

/** Resolves when readers get nothing of it any more. @returns how that is known, for people. */
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

/** Decides from what readers are answered whether they have forgotten what was taken out. */
class Listener {
  readonly #blindMs: number;
  /** Since when nobody was answered with something of ours. */
  #unheardSince: number;
  /** Rounds in a row in which all were answered with nothing of ours. */
  #quiet = 0;

  constructor(began: number, blindMs: number) {
    this.#unheardSince = began;
    this.#blindMs = blindMs;
  }

  /**
   * `answers`: undefined where nobody can ask. @returns how it is known that they have, for people; undefined: it
   * is not.
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
