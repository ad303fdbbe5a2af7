import { readFile } from "node:fs/promises";
import { parse } from "yaml";
import { listSettings } from "#lib/config/settings.ts";
import type { Generator } from "./generator.ts";
import { jsonSchemaOf } from "./json-schema.ts";
import { sections as configSections, valuesSchema } from "./schemas.ts";
import { code, type JsonSchema, table, typeOf } from "./tables.ts";

const read = (path: string) => readFile(new URL(`../../${path}`, import.meta.url), "utf8");

const HEAD = `Generated from manifests/values.ts, manifests/core-values.yaml, lib/config/schema.ts and what the
extras add, by \`npm run gen\`: change those, not this page.

    helm install switchback CHART --namespace switchback-system --create-namespace \\
      --set image.repository=registry.example.com/switchback
    helm test switchback --namespace switchback-system
    helm uninstall switchback --namespace switchback-system

A cluster can have one release. Values are validated: an unknown key is an error that names its
place. Only \`global\` may have other keys, because parent charts pass theirs. values.yaml has each
value with its default and what it is for.
`;

const COLUMNS = 100;
const SYNONYMS: readonly string[] = ["podAnnotations", "podLabels"];
const COMPONENTS = ["controller", "webhook", "proxy", "agent", "podDns"] as const;

const PODS = `
## All pods, and each component
Each of these values can also be set for one component, such as \`webhook.nodeSelector\`, apart from
\`runAsUser\`, \`preStopSleepSeconds\` and, for the agents, \`topologySpreadConstraints\` and
\`podDisruptionBudget\`; a value there replaces the one of \`pods\`. Agents use only their own security
contexts. The words \`podAnnotations\` and \`podLabels\` of other charts are accepted
with a warning.
`;

const CONFIG = `
## Configuration
\`config\` is the configuration file of all components. A list replaces its default.
`;

/** manifests/chart/README.md, which chart registries show. It lists every value with type, default and meaning. */
export const chartReadme: Generator = {
  name: "chart-readme",
  file: "manifests/chart/README.md",
  render: async () => {
    const values = parse(await read("manifests/chart/values.yaml"));
    const chart = parse(await read("manifests/chart/Chart.yaml"));
    const schema = jsonSchemaOf(valuesSchema);
    const { pods, config: _shown, enabled: _forParents, ...sections } = schema.properties ?? {};
    const shared = new Set(Object.keys(pods?.properties ?? {}));
    const rows = (some: Readonly<Record<string, JsonSchema>>) =>
      Object.entries(some).flatMap(([name, section]) => [...rowsOf(section, [name], values, shared)]);
    const head = ["value", "type", "default", "meaning"];
    const settings = listSettings(configSections)
      .filter(({ path }) => path !== "namespace" && path !== "pods.excludedNamespaces")
      .map(({ path, type, default: value, description }) => [
        code(`config.${path}`),
        type,
        value === undefined || path === "targets" ? "" : code(JSON.stringify(value)),
        description,
      ]);
    return [
      `# Switchback\n\n${wrapped(`${chart.description}.`)}\n\n${HEAD}`,
      `${PODS}\n${table(head, rows({ pods: pods ?? {} }))}`,
      `\n## Everything else\n\n${table(head, rows(sections))}`,
      `${CONFIG}\n${table(head, settings)}`,
    ].join("");
  },
};

function wrapped(text: string): string {
  const lines = [""];
  for (const word of text.split(" ")) {
    const line = `${lines.at(-1)} ${word}`.trim();
    if (line.length > COLUMNS) lines.push(word);
    else lines[lines.length - 1] = line;
  }
  return lines.join("\n");
}

/** Yields a row for each value. Settings that a component shares with `pods` appear only under `pods`. */
function* rowsOf(
  schema: JsonSchema,
  path: readonly string[],
  values: unknown,
  shared: ReadonlySet<string>,
): Iterable<string[]> {
  const [section = "", key = ""] = path;
  if (COMPONENTS.some((name) => name === section) && path.length === 2 && shared.has(key)) return;
  if (SYNONYMS.includes(path.at(-1) ?? "")) return;
  const properties = Object.entries(schema.properties ?? {});
  // A value with its own description is one row, unless it is a section.
  if (properties.length > 0 && (path.length === 1 || schema.description === undefined)) {
    for (const [name, child] of properties) yield* rowsOf(child, [...path, name], values, shared);
    return;
  }
  const value = path.reduce<unknown>((some, step) => (some as Record<string, unknown> | undefined)?.[step], values);
  yield [
    code(path.join(".")),
    typeOf(schema),
    value === undefined ? "" : code(JSON.stringify(value)),
    schema.description ?? "",
  ];
}
