import { setTimeout as delay } from "node:timers/promises";
import type { PublishedTargets } from "../snapshot/targets-format.ts";
import type { TargetsReader } from "../snapshot/targets-reader.ts";
import type { Logger } from "../telemetry/log.ts";

/** How long a start waits for the API server; then the mounted copy has to do, or what the config says. */
const FIRST_MS = 5_000;

export interface TargetsSubscription {
  /** What to begin with; undefined: what the config says. */
  readonly first: PublishedTargets | undefined;
  /** From now on `next` hears of each further document. */
  follow(next: (targets: PublishedTargets) => void): void;
  stop(): Promise<void>;
}

/** Begins to follow a feed. `mounted` is asked only if the feed has nothing to say in time. */
export async function followTargets(
  feed: TargetsReader,
  mounted: () => PublishedTargets | undefined,
  log: Logger,
): Promise<TargetsSubscription> {
  let latest: PublishedTargets | undefined;
  let next: ((targets: PublishedTargets) => void) | undefined;
  const abort = new AbortController();
  const told = Promise.withResolvers<boolean>();
  const running = feed.start((targets) => {
    latest = targets ?? latest;
    told.resolve(true);
    if (targets !== undefined) next?.(targets);
  });
  const late = delay(FIRST_MS, false, { signal: abort.signal }).catch(() => false);
  const inTime = await Promise.race([told.promise, late]);
  abort.abort();
  if (!inTime) log.warn({ code: "targets-late" }, "the API server does not tell the targets; starting without it");
  let first = latest ?? (inTime ? undefined : mounted());
  return {
    first,
    follow(callback) {
      next = callback;
      if (latest !== undefined && latest !== first) callback(latest);
      first = latest;
    },
    stop: () => running.stop(),
  };
}
