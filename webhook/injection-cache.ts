import { createSelector, type SelectedHosts } from "#hostmap/pod-selection.ts";
import type { PublishedMap } from "#hostmap/types.ts";

/** A map, and the selections that pods have made from it. Replaced as a whole. */
export type InjectionCache = ReturnType<typeof createInjectionCache>;

/**
 * Tenants write the annotations, so the memo has a limit. A selection of 500 names takes 60 KB, and is computed in a
 * millisecond.
 */
const MAX_SELECTIONS = 200;
/** Longer annotations are read for each pod again, because the memo would keep their text. */
const MAX_ANNOTATION = 4_096;

/** `maxNames`: maximum number of names that a pod gets. */
export function createInjectionCache(map: PublishedMap, maxNames: number) {
  const selectHosts = createSelector(map, maxNames);
  const memo = new Map<string | undefined, SelectedHosts>();
  return {
    revision: map.revision,
    /** The number of names in the map. */
    names: map.hosts.length,
    /** Returns the names that a `switchback.dev/hosts` annotation selects (undefined: no annotation). */
    select(annotation: string | undefined): SelectedHosts {
      const known = memo.get(annotation);
      if (known !== undefined) return known;
      const selection = selectHosts(annotation);
      if (annotation !== undefined && annotation.length > MAX_ANNOTATION) return selection;
      if (memo.size >= MAX_SELECTIONS) memo.clear();
      memo.set(annotation, selection);
      return selection;
    },
  };
}
