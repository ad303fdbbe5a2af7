import { readFile } from "node:fs/promises";
import type { Generator } from "./generator.ts";
import { metricDefinitions } from "./metric-definitions.ts";

/** Matches a metric's row: name, type, meaning, and what to do. */
const ROW = /^\| `((?:switchback|process)_[a-z_]+)` \|[^|]*\|[^|]*\| ?(.*)\|$/gm;

/**
 * docs/metrics.md: the type and meaning of each metric come from the component's code. The rest of the page is
 * written by hand.
 */
export const metricsPage: Generator = {
  name: "metrics-page",
  file: "docs/metrics.md",
  render: async () => {
    const page = await readFile(new URL("../../docs/metrics.md", import.meta.url), "utf8");
    const known = new Map(metricDefinitions().map((each) => [each.name, each]));
    return page.replaceAll(ROW, (row, name: string, rest: string) => {
      const definition = known.get(name);
      if (definition === undefined) return row;
      return `| \`${name}\` | ${definition.type} | ${definition.help.replace(/\.$/, "")} | ${rest}|`;
    });
  },
};
