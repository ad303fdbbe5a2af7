import type { SourceOf } from "./types.ts";

/**
 * Several sources as one: synced when all are. Object keys include the source's index, so that two kinds never
 * share a key.
 */
export function mergeSources<C>(sources: readonly SourceOf<C>[]): SourceOf<C> {
  return {
    start(sink, onSynced) {
      const waiting = new Set(sources);
      if (waiting.size === 0) onSynced();
      for (const [place, source] of sources.entries()) {
        source.start(
          (object, claims) => sink(`${place}/${object}`, claims),
          () => {
            if (waiting.delete(source) && waiting.size === 0) onSynced();
          },
        );
      }
    },
    state: () => sources.flatMap((source) => source.state()),
    stop: async () => {
      await Promise.all(sources.map((source) => source.stop()));
    },
  };
}
