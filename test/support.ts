import { readFileSync, writeFileSync } from "node:fs";
import { parse, stringify } from "yaml";

/** The first lines of this file describe its format. */
const SUPPORT_FILE = new URL("../docs/support.yaml", import.meta.url);

/** One row of the table in docs/support.md. */
export interface SupportRun {
  readonly what: string;
  readonly version: string;
  readonly passed: string;
  readonly command: string;
  /** Such as `2026-11-26`, in UTC. */
  readonly day: string;
}

/** Every recorded run, in the order of the file. */
export function supportRuns(file: string | URL = SUPPORT_FILE): SupportRun[] {
  return (parse(readFileSync(file, "utf8")) as SupportRun[] | null) ?? [];
}

/** Records a run that has passed today. It replaces an earlier run of the same `what` by the same command. */
export function recordRun(run: Omit<SupportRun, "day">, file: string | URL = SUPPORT_FILE): void {
  const runs = supportRuns(file);
  const [head] = /^(?:#.*\n)*/.exec(readFileSync(file, "utf8")) ?? [];
  const earlier = runs.findIndex(({ what, command }) => what === run.what && command === run.command);
  const day = new Date().toISOString().slice(0, 10);
  runs.splice(earlier < 0 ? runs.length : earlier, 1, { ...run, day });
  writeFileSync(file, head + stringify(runs, { lineWidth: 0 }));
}
