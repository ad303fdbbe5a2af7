import { buildManagedAliases, type ManagedAliases, type ManagedAliasesBuilder } from "#hostmap/inject.ts";
import type { Packing } from "#hostmap/pack.ts";
import { createSelector, type SelectedHosts } from "#hostmap/pod-selection.ts";
import type { PublishedMap } from "#hostmap/types.ts";

/** A map, and the selections that pods have made from it. Replaced as a whole. */
export interface InjectionCache {
  readonly revision: string;
  /** The number of names in the map. */
  readonly names: number;
  /** Returns the names that a `switchback.dev/hosts` annotation selects (undefined: no annotation). */
  readonly select: (annotation: string | undefined) => Selection;
}

/** The names of one annotation. */
export interface Selection extends SelectedHosts {
  /** `buildManagedAliases`, computed once for all pods whose user maps none of these names. */
  readonly build: ManagedAliasesBuilder;
}

/**
 * Tenants write the annotations, so the memo has a limit. A selection of 500 names takes 60 KB, and is computed in a
 * millisecond.
 */
const MAX_SELECTIONS = 200;
/** Longer annotations are read for each pod again, because the memo would keep their text. */
const MAX_ANNOTATION = 4_096;

/** `maxNames`: maximum number of names that a pod gets. */
export function createInjectionCache(map: PublishedMap, maxNames: number): InjectionCache {
  const selectHosts = createSelector(map, maxNames);
  const memo = new Map<string | undefined, Selection>();
  return {
    revision: map.revision,
    names: map.names.length,
    select(annotation) {
      const known = memo.get(annotation);
      if (known !== undefined) return known;
      const selection = { ...selectHosts(annotation), build: buildOnce() };
      if (annotation !== undefined && annotation.length > MAX_ANNOTATION) return selection;
      if (memo.size >= MAX_SELECTIONS) memo.clear();
      memo.set(annotation, selection);
      return selection;
    },
  };
}

function buildOnce(): ManagedAliasesBuilder {
  const built = new Map<Packing | undefined, ManagedAliases>();
  return (selected, taken, pack) => {
    if (taken.length > 0) return buildManagedAliases(selected, taken, pack);
    const managed = built.get(pack) ?? buildManagedAliases(selected, taken, pack);
    built.set(pack, managed);
    return managed;
  };
}
