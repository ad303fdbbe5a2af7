import { hasCode, SwitchbackError } from "../errors/errors.ts";
import { pause } from "../kube/time.ts";
import { emptyPublisherState } from "../snapshot/publisher-state.ts";
import type { PublisherStateStore } from "../snapshot/publisher-state-store.ts";
import { NOT_OURS, type Publisher } from "./publisher.ts";

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
  /** How long to wait where nobody can ask; shorter only in tests. */
  readonly blindMs?: number;
}

const POLL_MS = 2_000;
const SAY_MS = 20_000;
/** A kubelet hands a ConfigMap to its pods within 90 seconds, CoreDNS looks every 30 to 45; caches keep an answer for its TTL. */
const BLIND_MS = 150_000;
/** Rounds of questions in a row that nobody answers with a name of ours. */
const ROUNDS = 3;

/**
 * Takes out what a publisher has written, whether or not it runs: a mark in its document keeps it from writing again. Resolves when
 * readers get nothing of it any more. Throws `still-held` if they still do after `timeoutMs`.
 */
export async function removePublisher(options: RemoveOptions): Promise<void> {
  const { publisher, say, now, timeoutMs, pollMs = POLL_MS } = options;
  await markLeaving(options);
  await publisher.remove();
  say(`${publisher.name}: taken out of the ${publisher.place}`);
  const { readers } = publisher;
  if (readers === undefined) return;
  const began = now();
  let said = began;
  let quiet = 0;
  while (quiet < ROUNDS) {
    await pause(pollMs);
    // The publisher may have been writing while the mark was made.
    await publisher.remove();
    if (!options.canAsk) {
      if (now() - began >= (options.blindMs ?? BLIND_MS)) break;
      continue;
    }
    const answers = await readers.ask();
    const isQuiet = [...answers].every((answer) => answer === NOT_OURS);
    quiet = isQuiet ? quiet + 1 : 0;
    if (now() - began > timeoutMs) {
      const message = `${publisher.name}: the cluster's DNS still answers with what was taken out, or not at all. Try again`;
      throw new SwitchbackError("still-held", message);
    }
    if (now() - said < SAY_MS) continue;
    said = now();
    say(`${publisher.name}: waiting until the cluster's DNS has stopped answering`);
  }
  const how = options.canAsk ? "measured by asking" : "by waiting: nobody can ask it from here";
  say(`${publisher.name}: the cluster's DNS has stopped answering, ${how}`);
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
