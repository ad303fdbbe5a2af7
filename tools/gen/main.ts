import { readFile, writeFile } from "node:fs/promises";
import { chartLicense } from "./chart-license.ts";
import { chartReadme } from "./chart-readme.ts";
import { codesPage } from "./codes-page.ts";
import { configurationPage } from "./configuration-page.ts";
import { eventReasons } from "./event-reasons.ts";
import type { Generator } from "./generator.ts";
import { installManifest } from "./install-manifest.ts";
import { knownCodes } from "./known-codes.ts";
import { metricsPage } from "./metrics-page.ts";
import { probeProgram } from "./probe-program.ts";
import { serviceNames } from "./service-names.ts";
import { valuesSchemaFile } from "./values-schema.ts";

// The order matters: Helm reads the templates, the values and their schema when it renders the manifest.
const GENERATORS: readonly Generator[] = [
  eventReasons,
  serviceNames,
  valuesSchemaFile,
  installManifest,
  configurationPage,
  chartReadme,
  metricsPage,
  codesPage,
  knownCodes,
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
