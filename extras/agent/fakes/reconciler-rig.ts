import type { TestContext } from "node:test";
import type { PublishedMap } from "#hostmap/types.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { podFacts } from "#lib/workloads/pods.ts";
import { LineLog } from "#test/fakes/clock.ts";
import type { HostsFileUpdate } from "../hosts-file.ts";
import { HostsReconciler, type HostsReconcilerState, type LiveMode } from "../hosts-reconciler.ts";
import type { NodePod } from "../node-pod.ts";

const CONTENT = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n";
/** Outcome of a file that could not be written. */
export const refused = (code: string): HostsFileUpdate => ({ kind: "refused", reason: { code, text: `why ${code}` } });

export function mapOf(revision: string, ...names: string[]): PublishedMap {
  return publishedMapOf(revision, new Map(names.map((name) => [name, ["198.51.100.9"]])));
}

const NO_ALIASES: NodePod["managedAliases"] = [];

export function podOf(uid: string, more: Partial<NodePod> = {}): NodePod {
  const facts = podFacts({ metadata: { namespace: "shop", name: `pod-${uid}`, uid } });
  return { ...facts, managedAliases: NO_ALIASES, ended: false, ...more };
}

/** A reconciler of files whose outcome the test sets. Time passes only through `clock.now` and mocked timers. */
export function reconcilerRig(t: TestContext) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const clock = { now: 1_000, updateMs: 0 };
  /**
   * Updates (`u1`, or `u1 removed` if the result has no name). Also turns of the event loop (`|`), while a test
   * counts them.
   */
  const calls: string[] = [];
  const watches: string[] = [];
  const stamps: Record<string, string> = {};
  const outcomes: Record<string, HostsFileUpdate> = {};
  const modes: Record<string, LiveMode> = {};
  const rounds: HostsReconcilerState[] = [];
  const log = new LineLog();
  const reconciler = new HostsReconciler({
    files: {
      update(uid, change) {
        const result = change(Buffer.from(CONTENT)).toString();
        calls.push(result.includes("example.com") ? uid : `${uid} removed`);
        clock.now += clock.updateMs;
        const outcome = outcomes[uid] ?? { kind: "written", stamp: `${uid} ${calls.length}` };
        if ("stamp" in outcome) stamps[uid] = outcome.stamp;
        return outcome;
      },
      stamp: (uid) => stamps[uid],
      close() {},
    },
    watches: { add: (uid) => watches.push(`+${uid}`), remove: (uid) => watches.push(`-${uid}`) },
    decide: ({ uid }) => modes[uid] ?? "live",
    maxNames: 500,
    log,
    onRound: (state) => rounds.push(state),
    now: () => clock.now,
    cpu: () => clock.now,
  });
  t.after(() => reconciler.stop());
  const map = (revision: string, ...names: string[]) => reconciler.setMap(mapOf(revision, ...names));
  /** Waits until nothing is left to do. Returns the calls since the last time. */
  const done = async () => {
    await reconciler.settled();
    return calls.splice(0);
  };
  const tick = async (ms: number) => {
    t.mock.timers.tick(ms);
    return await done();
  };
  /** Starts with a map and these pods, and waits until all are written. */
  const begin = async (...uids: string[]) => {
    map("r1", "a.example.com");
    for (const uid of uids) reconciler.putPod(podOf(uid));
    await done();
    watches.length = 0;
  };
  return { reconciler, clock, calls, watches, stamps, outcomes, modes, rounds, log, map, done, tick, begin };
}
