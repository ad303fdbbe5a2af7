import type { SelectedHosts } from "#hostmap/pod-selection.ts";
import type { HostAlias } from "#hostmap/types.ts";
import { concatenated, createScratchBuffer, onText } from "./file-bytes.ts";
import { checkLines, hostsFileLimits } from "./hosts-file-limits.ts";
import { applyLive, headLength, removeLive } from "./live-hosts.ts";
import { type LiveAliases, type LivePlan, liveAliases, planLive } from "./live-hosts-plan.ts";

/**
 * Upper limit of cached plans. Files whose foreign lines differ need separate plans, and containers write those lines.
 */
const MAX_PLANS = 256;
/** Upper limit of the characters of cached plans, and of parsed aliases: both depend on what users write into pods. */
const MAX_CHARACTERS = 4 * 1024 * 1024;
/** Bytes at the start of a file that are searched for its head. */
const MAX_HEAD_BYTES = 1024;
/** Upper limit of cached texts, which can have a megabyte each. */
const MAX_TEXTS = 4;

/**
 * Caches results per map: most pods of a node are alike and share them. Files over the limits are refused
 * (`RefusedChange`).
 */
export interface LivePlans {
  aliases(managedAliases: readonly HostAlias[]): LiveAliases;
  /** `applyLive` on a file's bytes. */
  apply(content: Buffer, managedAliases: readonly HostAlias[], selected: SelectedHosts): Buffer;
  /** `removeLive` on a file's bytes. */
  remove(content: Buffer, managedAliases: readonly HostAlias[]): Buffer;
  /** Clears the cache when the map changes. */
  clear(): void;
}

/** A computed text and its input. */
interface CachedText {
  readonly aliases: LiveAliases;
  readonly revision: string;
  readonly before: Buffer;
  readonly after: Buffer;
}

export function createLivePlans(limits = hostsFileLimits()): LivePlans {
  let parsed = new WeakMap<readonly HostAlias[], LiveAliases>();
  let plans = new WeakMap<LiveAliases, Map<string, LivePlan>>();
  let cachedTexts: readonly CachedText[] = [];
  const [keptAliases, keptPlans] = [new KeptCharacters(), new KeptCharacters()];
  const scratch = createScratchBuffer();

  const aliasesOf = (managedAliases: readonly HostAlias[]): LiveAliases => {
    const existing = parsed.get(managedAliases);
    if (existing !== undefined) return existing;
    const aliases = liveAliases(managedAliases);
    if (keptAliases.overflows(aliases.byLine.keys())) parsed = new WeakMap();
    parsed.set(managedAliases, aliases);
    return aliases;
  };
  const plan = (aliases: LiveAliases, selected: SelectedHosts, foreignNames: readonly string[]): LivePlan => {
    let cachedPlans = plans.get(aliases) ?? new Map<string, LivePlan>();
    // The revision is a hash of the selection, so within one map it identifies the selected names.
    const key = `${selected.revision} ${foreignNames.join(" ")}`;
    const existing = cachedPlans.get(key);
    if (existing !== undefined) return existing;
    const plan = planLive(aliases, selected, foreignNames);
    if (keptPlans.overflows([key, ...plan.body])) {
      plans = new WeakMap();
      cachedPlans = new Map();
    }
    if (cachedPlans.size >= MAX_PLANS) cachedPlans.clear();
    plans.set(aliases, cachedPlans.set(key, plan));
    return plan;
  };
  const textFor = (before: Buffer, aliases: LiveAliases, selected: SelectedHosts): CachedText => {
    const { revision } = selected;
    const existing = cachedTexts.find(
      (text) => text.aliases === aliases && text.revision === revision && text.before.equals(before),
    );
    if (existing !== undefined) return existing;
    const text = before.toString("latin1");
    checkLines(text, limits);
    const applied = applyLive(text, aliases, selected, plan);
    // If the block made the file too large, the agent could not read it again, and the block would stay forever.
    checkLines(applied, limits);
    const after = Buffer.from(applied, "latin1");
    const cached = { aliases, revision, before: Buffer.from(text, "latin1"), after };
    cachedTexts = [cached, ...cachedTexts.slice(0, MAX_TEXTS - 1)];
    return cached;
  };
  return {
    apply(content, managedAliases, selected) {
      const aliases = aliasesOf(managedAliases);
      const head = headLength(content.toString("latin1", 0, MAX_HEAD_BYTES), aliases, selected);
      return concatenated(content.subarray(0, head), textFor(content.subarray(head), aliases, selected).after, scratch);
    },
    aliases: aliasesOf,
    remove: (content, managedAliases) =>
      onText((text) => {
        checkLines(text, limits);
        return removeLive(text, aliasesOf(managedAliases));
      })(content),
    clear() {
      plans = new WeakMap();
      keptPlans.clear();
      cachedTexts = [];
    },
  };
}

/** Counts the characters in a cache, and 100 more for each text, so that many short texts count too. */
class KeptCharacters {
  #characters = 0;

  /** Adds texts. Returns true if the caller must clear the cache first: then only these texts are counted. */
  overflows(texts: Iterable<string>): boolean {
    let added = 0;
    for (const text of texts) added += text.length + 100;
    this.#characters += added;
    if (this.#characters <= MAX_CHARACTERS) return false;
    this.#characters = added;
    return true;
  }

  clear(): void {
    this.#characters = 0;
  }
}
