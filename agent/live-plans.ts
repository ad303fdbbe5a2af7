import { applyLive, headLength } from "../hostmap/live-hosts.ts";
import { type LiveAliases, type LivePlan, liveAliases, planLive } from "../hostmap/live-hosts-plan.ts";
import type { SelectedHosts } from "../hostmap/select-hosts.ts";
import type { HostAlias } from "../hostmap/types.ts";
import { concatenated, createScratchBuffer } from "./file-bytes.ts";

/** Upper limit of cached plans. Files whose foreign lines differ need separate plans, and containers write those lines. */
const MAX_PLANS = 256;
/** How much of a file is searched for its head. */
const MAX_HEAD_BYTES = 1024;
/** Upper limit of cached texts, which can have a megabyte each. */
const MAX_TEXTS = 4;

/** Caches results per map: most pods of a node are alike and share them. */
interface Plans {
  aliases(ours: readonly HostAlias[]): LiveAliases;
  /** `applyLive` on a file's bytes. */
  apply(content: Buffer, ours: readonly HostAlias[], chosen: SelectedHosts): Buffer;
  /** Clears the cache when the map changes. */
  clear(): void;
}

interface Made {
  readonly aliases: LiveAliases;
  readonly revision: string;
  readonly before: Buffer;
  readonly after: Buffer;
}

export function createPlans(): Plans {
  const known = new WeakMap<readonly HostAlias[], LiveAliases>();
  let plans = new WeakMap<LiveAliases, Map<string, LivePlan>>();
  let texts: readonly Made[] = [];
  const room = createScratchBuffer();

  const aliasesOf = (ours: readonly HostAlias[]): LiveAliases => {
    const aliases = known.get(ours) ?? liveAliases(ours);
    known.set(ours, aliases);
    return aliases;
  };
  const plan = (aliases: LiveAliases, chosen: SelectedHosts, taken: readonly string[]): LivePlan => {
    const made = plans.get(aliases) ?? new Map<string, LivePlan>();
    plans.set(aliases, made);
    // The revision covers the selection, so within one map it stands for the names that are chosen.
    const key = `${chosen.revision} ${taken.join(" ")}`;
    const plan = made.get(key) ?? planLive(aliases, chosen, taken);
    if (made.size >= MAX_PLANS) made.clear();
    made.set(key, plan);
    return plan;
  };
  const make = (before: Buffer, aliases: LiveAliases, chosen: SelectedHosts): Made => {
    const { revision } = chosen;
    const same = texts.find(
      (made) => made.aliases === aliases && made.revision === revision && made.before.equals(before),
    );
    if (same !== undefined) return same;
    const text = before.toString("latin1");
    const after = Buffer.from(applyLive(text, aliases, chosen, plan), "latin1");
    const made = { aliases, revision, before: Buffer.from(text, "latin1"), after };
    texts = [made, ...texts.slice(0, MAX_TEXTS - 1)];
    return made;
  };
  return {
    aliases: aliasesOf,
    apply(content, ours, chosen) {
      const aliases = aliasesOf(ours);
      const head = headLength(content.toString("latin1", 0, MAX_HEAD_BYTES), aliases, chosen);
      return concatenated(content.subarray(0, head), make(content.subarray(head), aliases, chosen).after, room);
    },
    clear() {
      plans = new WeakMap();
      texts = [];
    },
  };
}
