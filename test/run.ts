import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { binaries, INTEGRATION_BINARIES } from "./cluster/binaries.ts";
import { NotHere } from "./cluster/not-here.ts";
import { type TestKind, testFiles } from "./files.ts";
import { groupFiles } from "./group-files.ts";
import { type Outcome, runFiles } from "./run-files.ts";
import { chooseVersions, VERSION_OPTIONS, type Versions } from "./versions.ts";

// `npm test [-- FILTER...]`: the unit tests, which need only Node. `npm run test:integration`: the tests that need
// more, most of them a real API server. `npm run test:all`: both. FILTER is a part of a path; with several filters, a
// path needs to match one of them.
// --kubernetes 1.30, --helm 3: integration tests with other versions. Without FILTER, they run the files in LIFE, which
// docs/support.md lists for each version.

const COMMANDS: Readonly<Record<string, readonly TestKind[]>> = {
  unit: ["unit"],
  integration: ["integration"],
  all: ["unit", "integration"],
};

/** Tests that install Switchback, inject pods, follow the map, upgrade and uninstall. */
const LIFE = [
  "integration/install-chart",
  "integration/injection",
  "integration/restart.test",
  "integration/admission-policy",
  "integration/hooks-policy",
  "integration/uninstall",
];

const USAGE = "usage: node test/run.ts unit|integration|all [--kubernetes MINOR] [--helm 3|4] [FILTER...]";

/**
 * One more than the cores, because tests of sockets and processes wait. On two cores, a run of 275 s used only 306 s
 * of CPU.
 */
const UNIT_CONCURRENCY = availableParallelism() + 1;

/**
 * Most integration files start their own control plane. Each uses about one core during its start, and 0.5 GB of
 * memory.
 */
const INTEGRATION_CONCURRENCY = Math.max(1, Math.min(4, availableParallelism()));

const isCi = process.env.CI === "true";

/**
 * Builds what the integration tests need, which takes minutes the first time. Returns why they cannot run here;
 * undefined if they can.
 */
async function missing(): Promise<string | undefined> {
  try {
    await binaries(INTEGRATION_BINARIES);
    return undefined;
  } catch (error) {
    if (error instanceof NotHere) return error.message;
    throw error;
  }
}

function heading(text: string): void {
  process.stdout.write(`\n=== ${text}\n\n`);
}

async function main(args: string[]): Promise<number> {
  const { command = "", versions, filters } = readArguments(args);
  const kinds = COMMANDS[command];
  const objection = kinds === undefined ? USAGE : chooseVersions(versions);
  if (kinds === undefined || objection !== undefined) {
    process.stderr.write(`${objection}\n`);
    return 1;
  }
  const isOtherVersion = Object.keys(versions).length > 0;
  return await runKinds(kinds, isOtherVersion && filters.length === 0 ? LIFE : filters);
}

function readArguments(args: string[]): { command?: string; versions: Versions; filters: string[] } {
  try {
    const { values, positionals } = parseArgs({ args, allowPositionals: true, options: VERSION_OPTIONS });
    const [command, ...filters] = positionals;
    return { ...(command && { command }), versions: values, filters };
  } catch {
    // An option that does not exist.
    return { versions: {}, filters: [] };
  }
}

async function runKinds(kinds: readonly TestKind[], filters: readonly string[]): Promise<number> {
  const of = (kind: TestKind) => (kinds.includes(kind) ? testFiles(kind, filters) : []);
  const [unit, integration] = [of("unit"), of("integration")];
  if (unit.length + integration.length === 0) {
    process.stderr.write(`no ${kinds.join(" or ")} test has ${filters.join(" or ")} in its path\n`);
    return 1;
  }
  const outcomes: Outcome[] = [];
  if (unit.length > 0) {
    heading(`unit tests (${unit.length} files)`);
    const { entries, remove } = groupFiles(unit);
    try {
      outcomes.push(await runFiles(entries, { concurrency: UNIT_CONCURRENCY }));
    } finally {
      remove();
    }
  }
  let reason: string | undefined;
  if (integration.length > 0) {
    heading(`integration tests (${integration.length} files)`);
    reason = await missing();
    if (reason === undefined) outcomes.push(await runFiles(integration, { concurrency: INTEGRATION_CONCURRENCY }));
  }
  return exitCodeOf(outcomes, reason);
}

/** Prints the last lines that a person reads, and returns the exit code. */
function exitCodeOf(outcomes: Outcome[], reason: string | undefined): number {
  const failed = outcomes.flatMap((outcome) => outcome.failed);
  const skipped = outcomes.flatMap((outcome) => outcome.skipped);
  if (skipped.length > 0) heading(`SKIPPED: ${skipped.length} tests: ${skipped.join("; ")}`);
  if (reason !== undefined) heading(`INTEGRATION TESTS SKIPPED: ${reason}`);
  const isIncomplete = skipped.length > 0 || reason !== undefined;
  if (isCi && isIncomplete) heading("CI=true: the run fails, because tests were skipped");
  if (failed.length > 0) heading(`FAILED: ${failed.length} tests\n${failed.join("\n")}`);
  return failed.length > 0 || (isCi && isIncomplete) ? 1 : 0;
}

// Ends even if a file has left something open.
process.exit(await main(process.argv.slice(2)));
