import type { TestContext } from "node:test";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { AgentLeaseWriter } from "../lease-writer.ts";

export interface Written {
  readonly metadata: { readonly annotations: Record<string, string>; readonly ownerReferences?: object[] };
  readonly spec: { readonly renewTime: string; readonly holderIdentity: string };
}

/** A writer of an agent's Lease, and all that it has written. Time passes only in `pass`. */
export function leaseRig(t: TestContext) {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"], now: 1_000_000 });
  /** Answers wait for this promise. */
  const answered: Promise<void> = Promise.resolve();
  const rig = {
    written: [] as Written[],
    deleted: 0,
    failing: false,
    tried: 0,
    refusal: 0,
    answered,
    spreadMs: 0,
    random: 0,
  };
  const log = new LineLog();
  const client = {
    async apply<T>(_path: string, object: object): Promise<T> {
      rig.tried += 1;
      if (rig.failing) throw new SwitchbackError("kube-unreachable", "away");
      rig.written.push(object as Written);
      await rig.answered;
      return object as T;
    },
    async delete() {
      rig.deleted += 1;
      await rig.answered;
      if (rig.refusal !== 0) throw new SwitchbackError("kube-status", "refused", { status: rig.refusal });
    },
  };
  const keeper = new AgentLeaseWriter({
    client,
    namespace: "switchback-agent",
    node: "node-1",
    identity: "agent-1",
    renewMs: 30_000,
    spreadMs: () => rig.spreadMs,
    random: () => rig.random,
    daemonSet: () => ({ name: "switchback-agent", uid: "u" }),
    log,
    now: () => Date.now(),
  });
  t.after(() => keeper.stop());
  /** Lets time pass in steps, and runs what depends on it. */
  const pass = async (ms: number): Promise<void> => {
    for (let left = ms; left > 0; left -= 100) {
      t.mock.timers.tick(Math.min(100, left));
      for (let turns = 0; turns < 5; turns += 1) await Promise.resolve();
    }
  };
  return { rig, keeper, pass, log };
}

/** A report without problems. */
export const step = (applied: string | undefined, podRevisions?: string[]) => ({ applied, podRevisions, problems: [] });
export const revisions = (written: readonly Written[]) =>
  written.map(({ metadata }) => metadata.annotations["switchback.dev/revision"]);
