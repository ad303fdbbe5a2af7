import { readFile } from "node:fs/promises";
import { eventReason } from "#lib/kube/events.ts";
import type { Generator } from "./generator.ts";

const PAGE = new URL("../../docs/codes.md", import.meta.url);
/** The parts of the page whose codes the controller reports by an Event. */
const PARTS = ["Names and claims", "Gateway API", "Targets", "Map and front Services", "Running pods and restarts"];

/** The reasons that the controller may give an Event, for the admission policy of its account. */
export const eventReasons: Generator = {
  name: "event-reasons",
  file: "manifests/chart/templates/_event-reasons.tpl",
  render: async () => {
    const page = await readFile(PAGE, "utf8");
    const reasons = [...new Set(PARTS.flatMap((part) => codesOf(page, part).map(eventReason)))].sort();
    return `{{- /* Made by \`npm run gen\` from docs/codes.md. */}}

{{/* The reasons of the controller's Events. JSON. */}}
{{- define "switchback.eventReasons" -}}
${JSON.stringify(reasons, undefined, 1)}
{{- end }}
`;
  },
};

/** The codes in the first column of a part's table. */
function codesOf(page: string, part: string): string[] {
  const [, text = ""] = page.split(`\n## ${part}\n`);
  const rows = (text.split("\n## ")[0] ?? "").split("\n").filter((line) => line.startsWith("| `"));
  if (rows.length === 0) throw new Error(`docs/codes.md has no codes in a part "${part}"`);
  return rows.flatMap((row) => [...(row.split(" | ")[0] ?? "").matchAll(/`([^`]+)`/g)].map(([, code = ""]) => code));
}
