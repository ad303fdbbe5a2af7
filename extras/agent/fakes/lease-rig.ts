import type { TestContext } from "node:test";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { stopTime } from "#test/fakes/stopped-time.ts";
import { AgentLeaseWriter } from "../lease-writer.ts";

export interface Written {
  readonly metadata: { readonly annotations: Record<string, string>; readonly ownerReferences?: object[] };
  readonly spec: { readonly renewTime: string; readonly holderIdentity: string };
}

/** A writer of an agent's Lease, and all that it has written. Time passes only in `pass`. */
export function leaseRig(t: TestContext) {
  const pass = stopTime(t, 100, 1);
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
  return { rig, keeper, pass, log };
}

/** A report without problems. */
export const step = (applied: string | undefined, podRevisions?: string[]) => ({ applied, podRevisions, problems: [] });
export const revisions = (written: readonly Written[]) =>
  written.map(({ metadata }) => metadata.annotations["switchback.dev/revision"]);
