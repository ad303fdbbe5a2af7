import { buildManagedAliases, type ManagedAliases, type ManagedAliasesBuilder } from "../hostmap/inject.ts";
import { createSelector, type SelectedHosts } from "../hostmap/select-hosts.ts";
import type { PublishedMap } from "../hostmap/types.ts";
import { createLru } from "./lru.ts";

/** A map made ready for admissions: what was worked out for one pod is at hand for the next like it. Replaced as a whole. */
export interface InjectionCache {
  readonly revision: string;
  /** How many names the map holds. */
  readonly names: number;
  /** The names a `switchback.dev/hosts` annotation chooses (undefined: no annotation). */
  readonly choose: (annotation: string | undefined) => SelectedHosts;
  /** `buildBlock`, remembered; equal questions give the same object, so that patches can be kept by it. */
  readonly build: ManagedAliasesBuilder;
}

/** Bytes that selections and blocks of one map may hold: tenants pick the annotations, so their number has no bound. */
const CHOSEN_BUDGET = 8 * 1024 * 1024;
const BLOCK_BUDGET = 16 * 1024 * 1024;
/** A name chosen is a reference in a list and an entry of a set. */
const CHOSEN_NAME_BYTES = 48;
/** A block's names appear in its aliases and, in base64, in the patch of each shape of pod. */
const COPIES = 8;
const OVERHEAD = 512;

/** `maxNames`: most names a pod gets. */
export function createInjectionCache(map: PublishedMap, maxNames: number): InjectionCache {
  const select = createSelector(map, maxNames);
  const everything = select(undefined);
  const chosen = createLru<SelectedHosts>(CHOSEN_BUDGET);
  const blocks = createLru<ManagedAliases>(BLOCK_BUDGET);
  return {
    revision: map.revision,
    names: map.size,
    choose(annotation) {
      if (annotation === undefined) return everything;
      const known = chosen.get(annotation);
      if (known !== undefined) return known;
      const choice = select(annotation);
      chosen.set(annotation, choice, OVERHEAD + annotation.length * 2 + choice.names.length * CHOSEN_NAME_BYTES);
      return choice;
    },
    build(choice, taken) {
      // The revision covers the selection, so within one map it stands for the names that are chosen.
      const key = `${choice.revision} ${taken.join(" ")}`;
      const known = blocks.get(key);
      if (known !== undefined) return known;
      const block = buildManagedAliases(choice, taken);
      blocks.set(key, block, weigh(block));
      return block;
    },
  };
}

function weigh({ aliases }: ManagedAliases): number {
  const bytes = aliases.reduce((sum, { ip, hostnames }) => sum + ip.length + hostnames.join().length, 0);
  return OVERHEAD + bytes * COPIES;
}
