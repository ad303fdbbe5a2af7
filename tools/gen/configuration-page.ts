import type { Generator } from "./generator.ts";
import { jsonSchemaOf } from "./json-schema.ts";
import { configSchema } from "./schemas.ts";
import { code, type JsonSchema, settingRows, table, typeOf } from "./tables.ts";

const HEAD = `# Configuration

Generated from lib/config/schema.ts by \`npm run gen\`: change the schema, not this page.

One YAML file (\`--config FILE\`; in the chart: \`config\` in the values) has the settings of all
components. \`--set path=value\` overrides it. If a setting is invalid, the process exits with code 2
and prints the path of the setting. A setting of the file that a component does not know, such as
one of a later release, is ignored with a warning in its log (code \`config-ignored\`), unless the
file has \`strict: true\`; \`switchback config\` and the chart's schema refuse it. Durations are in
seconds.
`;

const TARGETS = `
## Targets

\`targets\` is a list of ingress controllers. In \`--set\`, write a list or a map as YAML
(\`[{name: ...}]\`), and a text that looks like a number in quotes (\`'"123"'\`).
`;

const CUSTOM = `
## Custom sources

\`sources.custom\` is a list of kinds whose objects have hostnames. A JSONPath (RFC 9535) starts at
the root of the object (\`$.spec.hosts[*]\`). The chart allows the controller to list and watch each
kind.
`;

/** docs/configuration.md: every setting with its default and meaning. */
export const configurationPage: Generator = {
  name: "configuration-page",
  file: "docs/configuration.md",
  render: async () => {
    const schema = jsonSchemaOf(configSchema);
    const { targets = {}, sources } = schema.properties ?? {};
    const fields = [...listFields(targets, "targets")];
    const customFields = [...listFields(sources?.properties?.custom ?? {}, "sources.custom")];
    return [
      `${HEAD}\n${table(["setting", "type", "default", "meaning"], settingRows(schema))}`,
      `${TARGETS}\n${table(["setting", "type", "default", "meaning"], fields)}`,
      `${CUSTOM}\n${table(["setting", "type", "default", "meaning"], customFields)}`,
    ].join("");
  },
};

/** Yields the rows for the fields of a list's items, and of the lists in them. */
function* listFields(list: JsonSchema, path: string): Iterable<string[]> {
  for (const [key, field] of Object.entries(list.items?.properties ?? {})) {
    const place = `${path}[].${key}`;
    const nested = field.items?.properties !== undefined;
    const value = field.default === undefined || nested ? "" : code(JSON.stringify(field.default));
    yield [code(place), typeOf(field), value, field.description ?? ""];
    if (nested) yield* listFields(field, place);
  }
}
