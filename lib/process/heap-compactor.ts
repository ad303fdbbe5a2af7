import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Collects garbage when the process is idle. Otherwise V8 may keep garbage for days: 5 to 20 MB after a start. */
interface Compactor {
  /** Records activity. */
  recordActivity(): void;
  /** Called periodically: collects garbage once after a period without activity. */
  collectIfIdle(): void;
}

/** A collection takes about 50 ms. */
export function createCompactor(collect: () => void = collectGarbage): Compactor {
  let state: "clean" | "busy" | "idle" = "clean";
  return {
    recordActivity() {
      state = "busy";
    },
    collectIfIdle() {
      if (state === "idle") collect();
      state = state === "busy" ? "idle" : "clean";
    },
  };
}

/**
 * A new context has V8's function for this while its flag is set. With the flag from the start on, V8 would discard
 * Node's code cache, which costs 0.7 MB and a fifth of a start.
 */
function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as NodeJS.GCFunction;
  setFlagsFromString("--no-expose-gc");
  void collect({ type: "major", execution: "sync", flavor: "last-resort" });
}
