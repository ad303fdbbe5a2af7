import { setTimeout as delay } from "node:timers/promises";
import type { PublishedTargets } from "#lib/documents/targets-format.ts";
import type { TargetsReader } from "#lib/documents/targets-reader.ts";
import type { Logger } from "#lib/telemetry/log.ts";

/** How long a start waits for the API server before it uses the mounted copy or the config's targets. */
const FIRST_ANSWER_TIMEOUT_MS = 5_000;

export interface TargetsSubscription {
  /** The targets to start with. Undefined means the config's targets. */
  readonly initial: PublishedTargets | undefined;
  /** Calls `onTargets` with each later document. */
  subscribe(onTargets: (targets: PublishedTargets) => void): void;
  stop(): Promise<void>;
}

/** Subscribes to the published targets. Calls `readMounted` only if the first answer does not arrive in time. */
export async function subscribeTargets(
  targetsReader: TargetsReader,
  readMounted: () => PublishedTargets | undefined,
  log: Logger,
): Promise<TargetsSubscription> {
  let latest: PublishedTargets | undefined;
  let onTargets: ((targets: PublishedTargets) => void) | undefined;
  const abortTimeout = new AbortController();
  const firstAnswer = Promise.withResolvers<boolean>();
  const reader = targetsReader.start((targets) => {
    latest = targets ?? latest;
    firstAnswer.resolve(true);
    if (targets !== undefined) onTargets?.(targets);
  });
  const timeout = delay(FIRST_ANSWER_TIMEOUT_MS, false, { signal: abortTimeout.signal }).catch(() => false);
  const hasAnswered = await Promise.race([firstAnswer.promise, timeout]);
  abortTimeout.abort();
  if (!hasAnswered)
    log.warn({}, "the API server did not return the targets in time: starting with the mounted copy, or without them");
  let first = latest ?? (hasAnswered ? undefined : readMounted());
  return {
    initial: first,
    subscribe(callback) {
      onTargets = callback;
      if (latest !== undefined && latest !== first) callback(latest);
      first = latest;
    },
    stop: () => reader.stop(),
  };
}
