import { readFile } from "node:fs/promises";
import { type SupportRun, supportRuns } from "#test/support.ts";
import type { Generator } from "./generator.ts";
import { code, table } from "./tables.ts";

const HEAD = ["what", "version", "what passed", "command", "day"];
/** Matches the table with this head. */
const TABLE = new RegExp(`^\\| ${HEAD.join(" \\| ")} \\|\\n(?:\\|.*\\n)*`, "m");

/** docs/support.md: the table of test runs comes from docs/support.yaml. The rest of the page is written by hand. */
export const supportPage: Generator = {
  name: "support-page",
  file: "docs/support.md",
  render: async () => {
    const page = await readFile(new URL("../../docs/support.md", import.meta.url), "utf8");
    const rows = sorted(supportRuns()).map((run) => [run.what, run.version, run.passed, code(run.command), run.day]);
    return page.replace(TABLE, () => table(HEAD, rows));
  },
};

/** Sorts by the tested software, in the order of the file, and then by version: v1.9 before v1.10. */
function sorted(runs: readonly SupportRun[]): SupportRun[] {
  const order = [...new Set(runs.map(({ what }) => what))];
  const byVersion = new Intl.Collator("en", { numeric: true });
  return runs.toSorted(
    (one, other) =>
      order.indexOf(one.what) - order.indexOf(other.what) || byVersion.compare(one.version, other.version),
  );
}
