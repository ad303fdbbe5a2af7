/** Collects garbage once the process is idle. V8 alone may keep it for days: 5 to 20 MB after a start. */
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
