import { buildManagedAliases, type ManagedAliases, type ManagedAliasesBuilder } from "#hostmap/inject.ts";
import { packWindowsLines } from "#hostmap/pack.ts";
import { createSelector, type SelectedHosts } from "#hostmap/pod-selection.ts";
import type { PublishedMap } from "#hostmap/types.ts";
import { createLru } from "./lru.ts";

/** A map with caches for admissions, so that similar pods share the work. Replaced as a whole. */
export interface InjectionCache {
  readonly revision: string;
  /** The number of names in the map. */
  readonly names: number;
  /** Returns the names that a `switchback.dev/hosts` annotation selects (undefined: no annotation). */
  readonly select: (annotation: string | undefined) => SelectedHosts;
  /** `buildManagedAliases`, cached. Equal arguments return the same object, so that patches can be cached by it. */
  readonly build: ManagedAliasesBuilder;
}

/**
 * Bytes for the cached selections and managed aliases of one map. Tenants write the annotations, so their number is
 * unlimited.
 */
const SELECTIONS_BUDGET = 8 * 1024 * 1024;
const ALIASES_BUDGET = 16 * 1024 * 1024;
/** A selected name is a reference in a list and an entry in a set. */
const SELECTED_NAME_BYTES = 48;
/** The names appear in the aliases and, in base64, in the patch for each shape of pod. */
const COPIES = 8;
const OVERHEAD = 512;

/** `maxNames`: maximum number of names that a pod gets. */
export function createInjectionCache(map: PublishedMap, maxNames: number): InjectionCache {
  const selectHosts = createSelector(map, maxNames);
  const everything = selectHosts(undefined);
  const selections = createLru<SelectedHosts>(SELECTIONS_BUDGET);
  const managedAliases = createLru<ManagedAliases>(ALIASES_BUDGET);
  /** The aliases that most pods get. Stored separately, so that no key has to be built for each pod. */
  let all: ManagedAliases | undefined;
  const allNames = (): ManagedAliases => {
    all ??= buildManagedAliases(everything, []);
    return all;
  };
  return {
    revision: map.revision,
    names: map.names.length,
    select(annotation) {
      if (annotation === undefined) return everything;
      const cached = selections.get(annotation);
      if (cached !== undefined) return cached;
      const selected = selectHosts(annotation);
      selections.set(
        annotation,
        selected,
        OVERHEAD + annotation.length * 2 + selected.names.length * SELECTED_NAME_BYTES,
      );
      return selected;
    },
    build(selected, userNames, pack) {
      if (selected === everything && userNames.length === 0 && pack !== packWindowsLines) return allNames();
      // The revision is a hash of the selection, so within one map it identifies the selected names.
      const lines = pack === packWindowsLines ? "windows" : "linux";
      const key = `${lines} ${selected.revision} ${userNames.join(" ")}`;
      const cached = managedAliases.get(key);
      if (cached !== undefined) return cached;
      const managed = buildManagedAliases(selected, userNames, pack);
      managedAliases.set(key, managed, weigh(managed));
      return managed;
    },
  };
}

/** Estimates the bytes that the managed aliases and their patches take. */
function weigh({ aliases }: ManagedAliases): number {
  const bytes = aliases.reduce((sum, { ip, hostnames }) => sum + ip.length + hostnames.join().length, 0);
  return OVERHEAD + bytes * COPIES;
}
