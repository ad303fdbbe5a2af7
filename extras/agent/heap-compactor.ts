/** Collects garbage once the agent is idle. V8 alone may keep it for days: 10 MiB on every node. */
interface Compactor {
  /** Records activity. */
  recordActivity(): void;
  /** Called periodically: collects garbage once after a period without activity. */
  collectIfIdle(): void;
}

/** `collect` exists with `node --expose-gc`; without it nothing happens. A collection takes about 50 ms. */
export function createCompactor(collect: NodeJS.GCFunction | undefined): Compactor {
  let state: "clean" | "busy" | "idle" = "clean";
  return {
    recordActivity() {
      state = "busy";
    },
    collectIfIdle() {
      if (state === "idle") void collect?.({ type: "major", execution: "sync", flavor: "last-resort" });
      state = state === "busy" ? "idle" : "clean";
    },
  };
}
