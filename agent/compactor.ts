/** Gives the garbage of busy times back to the node. V8 keeps it for later, and later may not come for days: 10 MiB on every node. */
interface Compactor {
  /** Something was done. */
  worked(): void;
  /** Called now and then: after a while in which nothing was done, garbage is collected, once. */
  rest(): void;
}

/** `collect`: there with `node --expose-gc`, without it nothing happens. Takes some 50 ms. */
export function createCompactor(collect: NodeJS.GCFunction | undefined): Compactor {
  let state: "clean" | "busy" | "resting" = "clean";
  return {
    worked() {
      state = "busy";
    },
    rest() {
      if (state === "resting") void collect?.({ type: "major", execution: "sync", flavor: "last-resort" });
      state = state === "busy" ? "resting" : "clean";
    },
  };
}
