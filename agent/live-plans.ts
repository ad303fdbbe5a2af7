import { applyLive, headLength } from "../hostmap/live-hosts.ts";
import { type LiveAliases, type LivePlan, liveAliases, planLive } from "../hostmap/live-hosts-plan.ts";
import type { SelectedHosts } from "../hostmap/select-hosts.ts";
import type { HostAlias } from "../hostmap/types.ts";
import { concatenated, createScratchBuffer } from "./file-bytes.ts";

/** Upper limit of cached plans. Files whose foreign lines differ need separate plans, and containers write those lines. */
const MAX_PLANS = 256;
/** Bytes at the start of a file that are searched for its head. */
const MAX_HEAD_BYTES = 1024;
/** Upper limit of cached texts, which can have a megabyte each. */
const MAX_TEXTS = 4;

/** Caches results per map: most pods of a node are alike and share them. */
interface LivePlans {
  aliases(managedAliases: readonly HostAlias[]): LiveAliases;
  /** `applyLive` on a file's bytes. */
  apply(content: Buffer, managedAliases: readonly HostAlias[], selected: SelectedHosts): Buffer;
  /** Clears the cache when the map changes. */
  clear(): void;
}

/** A text that was computed, and its input. */
interface CachedText {
  readonly aliases: LiveAliases;
  readonly revision: string;
  readonly before: Buffer;
  readonly after: Buffer;
}

export function createLivePlans(): LivePlans {
  const parsed = new WeakMap<readonly HostAlias[], LiveAliases>();
  let plans = new WeakMap<LiveAliases, Map<string, LivePlan>>();
  let cachedTexts: readonly CachedText[] = [];
  const scratch = createScratchBuffer();

  const aliasesOf = (managedAliases: readonly HostAlias[]): LiveAliases => {
    const aliases = parsed.get(managedAliases) ?? liveAliases(managedAliases);
    parsed.set(managedAliases, aliases);
    return aliases;
  };
  const plan = (aliases: LiveAliases, selected: SelectedHosts, foreignNames: readonly string[]): LivePlan => {
    const cachedPlans = plans.get(aliases) ?? new Map<string, LivePlan>();
    plans.set(aliases, cachedPlans);
    // The revision is a hash of the selection, so within one map it identifies the selected names.
    const key = `${selected.revision} ${foreignNames.join(" ")}`;
    const plan = cachedPlans.get(key) ?? planLive(aliases, selected, foreignNames);
    if (cachedPlans.size >= MAX_PLANS) cachedPlans.clear();
    cachedPlans.set(key, plan);
    return plan;
  };
  const textFor = (before: Buffer, aliases: LiveAliases, selected: SelectedHosts): CachedText => {
    const { revision } = selected;
    const existing = cachedTexts.find(
      (text) => text.aliases === aliases && text.revision === revision && text.before.equals(before),
    );
    if (existing !== undefined) return existing;
    const text = before.toString("latin1");
    const after = Buffer.from(applyLive(text, aliases, selected, plan), "latin1");
    const cached = { aliases, revision, before: Buffer.from(text, "latin1"), after };
    cachedTexts = [cached, ...cachedTexts.slice(0, MAX_TEXTS - 1)];
    return cached;
  };
  return {
    aliases: aliasesOf,
    apply(content, managedAliases, selected) {
      const aliases = aliasesOf(managedAliases);
      const head = headLength(content.toString("latin1", 0, MAX_HEAD_BYTES), aliases, selected);
      return concatenated(content.subarray(0, head), textFor(content.subarray(head), aliases, selected).after, scratch);
    },
    clear() {
      plans = new WeakMap();
      cachedTexts = [];
    },
  };
}
