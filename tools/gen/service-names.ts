import { RESERVED_TARGET_NAMES } from "#lib/config/defaults.ts";
import { frontName } from "#lib/documents/listeners.ts";
import type { Generator } from "./generator.ts";

/** The Services other than front Services, for the admission policy of the controller's account. */
export const serviceNames: Generator = {
  name: "service-names",
  file: "manifests/chart/templates/_service-names.tpl",
  render: async () => `{{- /* Made by \`npm run gen\` from lib/config/defaults.ts. */}}

{{/* The chart's own Services. A front Service has none of these names. JSON. */}}
{{- define "switchback.serviceNames" -}}
${JSON.stringify(RESERVED_TARGET_NAMES.map(frontName))}
{{- end }}
`,
};
