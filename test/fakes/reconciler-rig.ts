import { createBackoff } from "#lib/kube/backoff.ts";
import { type ReconcileResult, Reconciler, type ReconcilerOptions } from "#lib/kube/reconciler.ts";
import { FakeClock } from "./clock.ts";

type Gate = PromiseWithResolvers<ReconcileResult | undefined>;

/** A reconciler whose runs last until the test ends them. `begun` has the start time of each run. */
export function reconcilerRig(options: Partial<ReconcilerOptions> = {}) {
  const clock = new FakeClock();
  const start = clock.now();
  const begun: number[] = [];
  const gates: Gate[] = [];
  const reconciler = new Reconciler({
    reconcile: () => {
      begun.push(clock.now() - start);
      const gate: Gate = Promise.withResolvers();
      gates.push(gate);
      return gate.promise;
    },
    startTimer: (callback, ms) => clock.after(ms, callback),
    ...options,
  });
  const end = async (result?: ReconcileResult) => {
    gates.shift()?.resolve(result);
    await clock.pass(0);
  };
  const fail = async () => {
    gates.shift()?.reject(new Error("refused"));
    await clock.pass(0);
  };
  return { clock, begun, reconciler, end, fail, pass: (ms: number) => clock.pass(ms) };
}

/** Retry options that report each failure, and the retry delays that they reported. */
export function retries(hold = false) {
  const reported: number[] = [];
  const onError = (_: unknown, retryMs: number) => void reported.push(retryMs);
  return { reported, retry: { backoff: createBackoff(1_000, 4_000), onError, hold } };
}
