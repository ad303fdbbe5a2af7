import type { Reason } from "#hostmap/types.ts";
import type { PublishOutcome } from "./publisher.ts";
import type { PublisherMap } from "./publisher-map.ts";
import { renderRootTemplates } from "./root-templates.ts";
import { type BlocksOptions, renderServerBlocks, type ServerBlocks } from "./server-blocks.ts";
import type { ServerZones } from "./server-zones.ts";

/**
 * Maximum size of a ConfigMap's content, in bytes. The API server accepts objects of about 1 MiB, and the kubelet
 * writes the same text to the Corefile's file.
 */
const ROOM_BYTES = 900_000;

/** Renders the server blocks of a map. Renders again only when the map or the Corefile changes. */
export class BlocksRenderer {
  readonly #fixed: Pick<BlocksOptions, "publisher" | "first">;
  #key = "";
  #blocks: ServerBlocks | undefined;

  constructor(fixed: Pick<BlocksOptions, "publisher" | "first">) {
    this.#fixed = fixed;
  }

  /**
   * `others`: bytes in the ConfigMap beside our text. `isInside`: whether the text goes inside the server block of
   * the root.
   */
  render(map: PublisherMap, { listen, taken }: ServerZones, others: number, isInside = false): ServerBlocks | Reason {
    if (listen === undefined) {
      return {
        code: "publisher-corefile-unreadable",
        text: "no server block of the Corefile answers everything (`.`)",
      };
    }
    // Rounded, so that a few bytes more or less in somebody else's text change nothing.
    const maxBytes = Math.max(0, ROOM_BYTES - Math.ceil(others / 10_000) * 10_000);
    const key = JSON.stringify([map.revision, listen, [...taken].sort(), maxBytes, isInside]);
    if (this.#blocks === undefined || key !== this.#key) {
      const options = { ...this.#fixed, listen, taken, maxBytes };
      this.#blocks = isInside ? renderRootTemplates(map, options) : renderServerBlocks(map, options);
      this.#key = key;
    }
    return this.#blocks;
  }
}

/** The outcome if nothing is written. */
export function refused(problem: Reason): PublishOutcome {
  return { names: 0, leftOut: 0, problem, refused: true };
}

/** The outcome if the blocks are written. */
export function outcomeOf({ names, tooMany, elsewhere }: ServerBlocks): PublishOutcome {
  const taken = `${elsewhere} names are left out: another server block answers for them`;
  const room = `${tooMany} names are left out: there is no room for more`;
  const leftOut = tooMany + elsewhere;
  if (leftOut === 0) return { names, leftOut };
  if (tooMany === 0) return { names, leftOut, problem: { code: "publisher-zone-taken", text: taken } };
  return { names, leftOut, problem: { code: "publisher-no-room", text: elsewhere === 0 ? room : `${room}; ${taken}` } };
}
