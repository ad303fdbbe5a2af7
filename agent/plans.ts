import { type LiveAliases, type LivePlan, type LivePlanner, liveAliases, planLive } from "../hosts/live.ts";
import type { HostAlias } from "../hosts/types.ts";

/** Files whose lines of others differ want plans of their own, and containers write those lines. */
const MAX_PLANS = 256;

/** The pods of a node are mostly alike: what was worked out for one is at hand for the next. */
export interface Plans {
  aliases(ours: readonly HostAlias[]): LiveAliases;
  readonly plan: LivePlanner;
  /** Forgets the plans: another map. */
  clear(): void;
}

export function createPlans(): Plans {
  const aliases = new WeakMap<readonly HostAlias[], LiveAliases>();
  let plans = new WeakMap<LiveAliases, Map<string, LivePlan>>();
  return {
    aliases(ours) {
      const made = aliases.get(ours) ?? liveAliases(ours);
      aliases.set(ours, made);
      return made;
    },
    plan(of, chosen, taken) {
      const known = plans.get(of) ?? new Map<string, LivePlan>();
      plans.set(of, known);
      // The revision covers the selection, so within one map it stands for the names that are chosen.
      const key = `${chosen.revision} ${taken.join(" ")}`;
      const plan = known.get(key) ?? planLive(of, chosen, taken);
      if (known.size >= MAX_PLANS) known.clear();
      known.set(key, plan);
      return plan;
    },
    clear() {
      plans = new WeakMap();
    },
  };
}
