import { globSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { EXTRAS } from "#cli/extras.ts";
import type { Generator } from "./generator.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const INTO = "manifests/chart/templates/extras";
const PART = /\{\{-? define "switchback\.([a-z-]+)\.(\w+)" /g;

const sources = EXTRAS.flatMap(({ name }) =>
  globSync(`extras/${name}/chart/templates/*`, { cwd: ROOT })
    .sort()
    .map((path) => ({ path, file: `${INTO}/${path.slice("extras/".length).replace("/chart/templates/", "/")}` })),
);
const former = globSync(`${INTO}/*/*`, { cwd: ROOT }).filter((path) => !sources.some(({ file }) => file === path));

/**
 * The extras' templates, because Helm reads no templates outside of the chart, and the list of core parts that they
 * extend.
 */
export const chartTemplates: readonly Generator[] = [
  ...sources.map(({ path, file }) => ({ file, render: () => readFile(join(ROOT, path), "utf8") })),
  ...former.map((file) => ({ file, render: async () => undefined })),
  { file: `${INTO}/_parts.tpl`, render: async () => partsTemplate() },
].map((one) => ({ name: "chart-templates", ...one }));

function partsTemplate(): string {
  const parts: Record<string, string[]> = {};
  for (const { path } of sources) {
    for (const [, extra = "", part = ""] of readFileSync(join(ROOT, path), "utf8").matchAll(PART)) {
      if (EXTRAS.some(({ name }) => name === extra)) parts[part] = [...(parts[part] ?? []), extra];
    }
  }
  const lines = Object.entries(parts).map(([part, extras]) => `  "${part}": ${JSON.stringify(extras)}`);
  return `{{- /* Made by \`npm run gen\`. This folder is copied from extras, "chart/templates": change it there. */}}

{{/* The parts of the core's templates that extras add to, and which extras do. */}}
{{- define "switchback.parts" -}}
{
${lines.sort().join(",\n")}
}
{{- end }}
`;
}
