import * as v from "valibot";
import type { Reason } from "#hostmap/types.ts";
import { object } from "#lib/errors/schemas.ts";
import { parse } from "#lib/errors/validation.ts";

/** An agent's report about its node's hosts file, on its Lease. */
export interface NodeHostsReport {
  /** `SelectedHosts.revision` of the names in the file. Undefined if nothing was written yet. */
  readonly revision: string | undefined;
  /** Number of names in the block. */
  readonly names: number;
  /** Names that a foreign line in the file already has. That line stays. The Lease lists only the first `MAX_TAKEN`. */
  readonly taken: readonly string[];
  /** Why the file is not current. */
  readonly problem: Reason | undefined;
}

/** Maximum number of taken names that are listed. */
export const MAX_TAKEN = 5;
/** Maximum length of a report that is read, in characters. */
const MAX_TEXT = 8 * 1024;

const reasonSchema = object({ code: v.string(), text: v.string() });
/** An optional field with an invalid value is left out. */
const reportSchema = object({
  revision: v.fallback(v.optional(v.string()), undefined),
  names: v.number(),
  taken: v.array(v.unknown()),
  problem: v.fallback(v.optional(reasonSchema), undefined),
});

/** Renders JSON for one annotation, which belongs to format version 1 of the Lease. */
export function renderNodeHostsReport({ revision, names, taken, problem }: NodeHostsReport): string {
  return JSON.stringify({ revision, names, taken: taken.slice(0, MAX_TAKEN), problem });
}

/**
 * Returns undefined if there is no report, or if it cannot be read. An agent without names for its node writes none.
 */
export function parseNodeHostsReport(text: string | undefined): NodeHostsReport | undefined {
  if (text === undefined || text.length > MAX_TEXT) return undefined;
  try {
    const { revision, names, taken, problem } = parse(reportSchema, JSON.parse(text));
    const texts = taken.filter((name) => typeof name === "string");
    return { revision, names, taken: texts.slice(0, MAX_TAKEN), problem };
  } catch {
    return undefined;
  }
}
