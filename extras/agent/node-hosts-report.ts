import * as v from "valibot";
import type { Reason } from "#hostmap/types.ts";
import { object } from "#lib/errors/schemas.ts";
import { parse } from "#lib/errors/validation.ts";

/** What an agent reports of its node's hosts file, on its Lease. */
export interface NodeHostsReport {
  /** `SelectedHosts.revision` of what the file has; undefined: nothing was written yet. */
  readonly revision: string | undefined;
  /** How many names the block has. */
  readonly names: number;
  /** Names that a line of somebody else has in the file, which stays; the first few. */
  readonly taken: readonly string[];
  /** Why the file is not current. */
  readonly problem: Reason | undefined;
}

/** Taken names that are listed one by one. */
export const MAX_TAKEN = 5;
/** Characters of a report that are read. */
const MAX_TEXT = 8 * 1024;

const reasonSchema = object({ code: v.string(), text: v.string() });
/** Of what is not needed, a value that cannot be read is left out. */
const reportSchema = object({
  revision: v.fallback(v.optional(v.string()), undefined),
  names: v.number(),
  taken: v.array(v.unknown()),
  problem: v.fallback(v.optional(reasonSchema), undefined),
});

/** JSON: it is one annotation, of format version 1 of the Lease. */
export function renderNodeHostsReport({ revision, names, taken, problem }: NodeHostsReport): string {
  return JSON.stringify({ revision, names, taken: taken.slice(0, MAX_TAKEN), problem });
}

/** Undefined: there is no report, or it cannot be read. An agent without names for its node writes none. */
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
