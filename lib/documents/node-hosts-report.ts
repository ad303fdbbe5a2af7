import type { Reason } from "#hostmap/types.ts";

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

/** JSON: it is one annotation, of format version 1 of the Lease. */
export function renderNodeHostsReport({ revision, names, taken, problem }: NodeHostsReport): string {
  return JSON.stringify({ revision, names, taken: taken.slice(0, MAX_TAKEN), problem });
}

/** Undefined: there is no report, or it cannot be read. An agent of an earlier release, or without names for its node, has none. */
export function parseNodeHostsReport(text: string | undefined): NodeHostsReport | undefined {
  if (text === undefined || text.length > MAX_TEXT) return undefined;
  let raw: Record<string, unknown>;
  try {
    raw = Object(JSON.parse(text)) as Record<string, unknown>;
  } catch {
    return undefined;
  }
  const { revision, names, taken } = raw;
  if (typeof names !== "number" || !Array.isArray(taken)) return undefined;
  return {
    revision: typeof revision === "string" ? revision : undefined,
    names,
    taken: taken.filter((name) => typeof name === "string").slice(0, MAX_TAKEN),
    problem: isReason(raw.problem) ? raw.problem : undefined,
  };
}

function isReason(value: unknown): value is Reason {
  const { code, text } = Object(value) as Partial<Record<keyof Reason, unknown>>;
  return [code, text].every((part) => typeof part === "string");
}
