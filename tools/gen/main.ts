import { execFile, spawnSync } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import { RESERVED_TARGET_NAMES } from "#lib/config/defaults.ts";
import { frontName } from "#lib/documents/listeners.ts";
import { componentSchema } from "#manifests/pod-values.ts";
import { binary } from "#test/cluster/binaries.ts";
import { chartReadme } from "./chart-readme.ts";
import { codesPage } from "./codes-page.ts";
import { configurationPage } from "./configuration-page.ts";
import type { Generator } from "./generator.ts";
import { jsonSchemaOf } from "./json-schema.ts";
import { metricDefinitions } from "./metric-definitions.ts";
import { valuesSchema } from "./schemas.ts";

const PROBE_ENTRY = `import { executePlan } from "./doctor/probe/ask.ts";
executePlan(JSON.parse(process.argv[1])).then((result) => console.log(JSON.stringify(result)));`;

/** doctor/probe/program.ts: the probe as one text, for any image that has Node. */
const probeProgram: Generator = {
  name: "probe-program",
  file: "doctor/probe/program.ts",
  render: async () => {
    const { outputFiles } = await build({
      stdin: { contents: PROBE_ENTRY, resolveDir: fileURLToPath(new URL("../..", import.meta.url)) },
      bundle: true,
      format: "cjs",
      platform: "node",
      target: "node18",
      minify: true,
      legalComments: "none",
      charset: "ascii",
      write: false,
      logLevel: "warning",
    });
    // One line of Base64, so that neither quotes in the program nor a formatter can break it.
    const text = Buffer.from(outputFiles[0]?.text ?? "").toString("base64");
    return `// Made by \`npm run gen\` from ask.ts: do not edit.

/** The probe as a text for \`node -e\`, Node 18 or newer; the plan is its argument, the result its output. */
export const PROBE_PROGRAM = Buffer.from(
  "${text}",
  "base64",
).toString();
`;
  },
};

const CHART = fileURLToPath(new URL("../../manifests/chart", import.meta.url));
const NAMESPACE = "switchback-system";

const MANIFEST_HEAD = `# Switchback with the chart's default values, for \`kubectl apply --server-side -f\`.
# Made from manifests/chart by \`npm run gen\`: change the chart, not this file.
---
apiVersion: v1
kind: Namespace
metadata:
  name: ${NAMESPACE}
  labels:
    app.kubernetes.io/name: switchback
    app.kubernetes.io/part-of: switchback
    pod-security.kubernetes.io/enforce: restricted
    pod-security.kubernetes.io/audit: restricted
    pod-security.kubernetes.io/warn: restricted
`;

/** Labels that apply only to a Helm release. */
const HELM_LABEL = /^ +(helm\.sh\/chart|app\.kubernetes\.io\/managed-by|app\.kubernetes\.io\/instance): .*\n/gm;

/** manifests/install.yaml: the output of `helm template`, and the Namespace that Helm would create. */
const installManifest: Generator = {
  name: "install-manifest",
  file: "manifests/install.yaml",
  render: async () => {
    const helm = await binary("helm");
    const args = ["template", "switchback", CHART, "--namespace", NAMESPACE, "--no-hooks"];
    const { stdout } = await promisify(execFile)(helm, args, { maxBuffer: 16 * 1024 * 1024 });
    return MANIFEST_HEAD + policiesFirst(stdout.replace(HELM_LABEL, "").replace(/\n{2,}---/g, "\n---"));
  },
};

/** Moves admission policies before the rights that they limit. Helm puts kinds that it does not know at the end. */
function policiesFirst(manifest: string): string {
  const objects = manifest.split(/^(?=---\n)/m);
  const isPolicy = (object: string) => /^kind: ValidatingAdmissionPolicy/m.test(object);
  const rights = objects.findIndex((object) => /^kind: ClusterRole$/m.test(object));
  const [before, after] = [objects.slice(0, rights), objects.slice(rights)];
  return [...before, ...after.filter(isPolicy), ...after.filter((object) => !isPolicy(object))].join("");
}

/** Matches a metric's row: name, type, meaning, and what to do. */
const METRIC_ROW = /^\| `((?:switchback|process)_[a-z_]+)` \|[^|]*\|[^|]*\| ?(.*)\|$/gm;

/**
 * docs/metrics.md: the type and meaning of each metric come from the component's code. The rest of the page is
 * written by hand.
 */
const metricsPage: Generator = {
  name: "metrics-page",
  file: "docs/metrics.md",
  render: async () => {
    const page = await readFile(new URL("../../docs/metrics.md", import.meta.url), "utf8");
    const known = new Map(metricDefinitions().map((each) => [each.name, each]));
    return page.replaceAll(METRIC_ROW, (row, name: string, rest: string) => {
      const definition = known.get(name);
      if (definition === undefined) return row;
      return `| \`${name}\` | ${definition.type} | ${definition.help.replace(/\.$/, "")} | ${rest}|`;
    });
  },
};

const VALUES_SCHEMA = "manifests/chart/values.schema.json";

/** The chart's values.schema.json. */
const valuesSchemaFile: Generator = {
  name: "values-schema",
  file: VALUES_SCHEMA,
  render: async () => {
    const shared = { component: componentSchema, ...componentSchema.entries };
    return formatJson(jsonSchemaOf(valuesSchema, shared), VALUES_SCHEMA);
  },
};

/** JSON text as the repository's formatter writes it, so that a generated file passes the linter. */
function formatJson(value: unknown, file: string): string {
  const biome = createRequire(import.meta.url).resolve("@biomejs/biome/bin/biome");
  const result = spawnSync(process.execPath, [biome, "format", `--stdin-file-path=${file}`], {
    input: JSON.stringify(value),
    encoding: "utf8",
  });
  if (result.status !== 0) throw new Error(`biome format ended with ${result.status}: ${result.stderr}`);
  return result.stdout;
}

/** The Services other than front Services, for the admission policy of the controller's account. */
const serviceNames: Generator = {
  name: "service-names",
  file: "manifests/chart/templates/_service-names.tpl",
  render: async () => `{{- /* Made by \`npm run gen\` from lib/config/defaults.ts. */}}

{{/* The chart's own Services. A front Service has none of these names. JSON. */}}
{{- define "switchback.serviceNames" -}}
${JSON.stringify(RESERVED_TARGET_NAMES.map(frontName))}
{{- end }}
`,
};

/** manifests/chart/LICENSE: a copy, because a packaged chart contains only files of its folder. */
const chartLicense: Generator = {
  name: "chart-license",
  file: "manifests/chart/LICENSE",
  render: () => readFile(new URL("../../LICENSE", import.meta.url), "utf8"),
};

// The order matters: Helm reads the templates, the values and their schema when it renders the manifest.
const GENERATORS: readonly Generator[] = [
  serviceNames,
  valuesSchemaFile,
  installManifest,
  configurationPage,
  chartReadme,
  metricsPage,
  codesPage,
  chartLicense,
  probeProgram,
];

const args = process.argv.slice(2);
const check = args.includes("--check");
const names = args.filter((arg) => arg !== "--check");
const unknown = names.find((name) => !GENERATORS.some((generator) => generator.name === name));
if (unknown !== undefined) {
  const known = new Set(GENERATORS.map(({ name }) => name));
  console.error(`${unknown}: no such generator; there are ${[...known].join(", ")}`);
  process.exit(2);
}
for (const generator of GENERATORS) {
  if (names.length > 0 && !names.includes(generator.name)) continue;
  await bringUpToDate(generator);
}

/** Writes the file if it is out of date. With `--check`, reports it instead and sets the exit code to 1. */
async function bringUpToDate({ file, render }: Generator): Promise<void> {
  const url = new URL(`../../${file}`, import.meta.url);
  const [before, after] = await Promise.all([readFile(url, "utf8").catch(() => undefined), render()]);
  if (before === after) return;
  if (check) {
    console.error(`${file} is out of date: run \`npm run gen\` and commit it`);
    process.exitCode = 1;
    return;
  }
  await writeFile(url, after);
  console.log(`${file} written`);
}
