import { eventReason } from "#lib/kube/events.ts";
import { codeParts } from "./codes-page.ts";
import type { Generator } from "./generator.ts";

/** The parts of docs/codes.md whose codes the controller reports by an Event. */
const PARTS = ["Names and claims", "Gateway API", "Targets", "Map and front Services", "Running pods and restarts"];

/** The Event reasons that the admission policy allows the controller's account. */
export const eventReasons: Generator = {
  name: "event-reasons",
  file: "manifests/chart/templates/_event-reasons.tpl",
  render: async () => {
    const parts = codeParts();
    const rows = PARTS.flatMap((title) => {
      const part = parts.get(title);
      if (part === undefined) throw new Error(`no codes.md has a part "${title}"`);
      return part.rows;
    });
    const reasons = [...new Set(rows.flatMap(({ codes }) => codes.map(eventReason)))].sort();
    return `{{- /* Made by \`npm run gen\` from the files codes.md beside the code. */}}

{{/* The reasons of the controller's Events. JSON. */}}
{{- define "switchback.eventReasons" -}}
${JSON.stringify(reasons, undefined, 1)}
{{- end }}
`;
  },
};
