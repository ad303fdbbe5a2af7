import { globSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { binaries, INTEGRATION_BINARIES, Unavailable } from "./cluster/binaries.ts";
import { type Outcome, runFiles } from "./run-files.ts";

// `npm test [-- FILTER...]`: the unit tests, then the integration tests. FILTER is a part of a path; several are "or".

const ROOT = join(import.meta.dirname, "..");

/** Each integration file starts a control plane of its own, about one core while it starts and 0.5 GB. */
const INTEGRATION_CONCURRENCY = Math.max(1, Math.min(4, availableParallelism()));

const isCi = process.env.CI === "true";

function testFiles(filters: string[]): { unit: string[]; integration: string[] } {
  const wanted = globSync("**/*.test.ts", { cwd: ROOT, exclude: ["**/node_modules", "test/e2e/[0-9]*"] })
    .filter((file) => filters.length === 0 || filters.some((filter) => file.includes(filter)))
    .sort();
  const isIntegration = (file: string) => file.startsWith(join("test", "integration"));
  return { unit: wanted.filter((file) => !isIntegration(file)), integration: wanted.filter(isIntegration) };
}

/** Why the integration tests cannot run here, if so. Builds what they need, which takes minutes the first time. */
async function missing(): Promise<string | undefined> {
  try {
    await binaries(INTEGRATION_BINARIES);
    return undefined;
  } catch (error) {
    if (error instanceof Unavailable) return error.message;
    throw error;
  }
}

function heading(text: string): void {
  process.stdout.write(`\n=== ${text}\n\n`);
}

async function main(filters: string[]): Promise<number> {
  const { unit, integration } = testFiles(filters);
  if (unit.length + integration.length === 0) {
    process.stderr.write(`no test file has ${filters.join(" or ")} in its path\n`);
    return 1;
  }
  const outcomes: Outcome[] = [];
  if (unit.length > 0) {
    heading(`unit tests (${unit.length} files)`);
    outcomes.push(await runFiles(unit, { concurrency: availableParallelism() }));
  }
  let reason: string | undefined;
  if (integration.length > 0) {
    heading(`integration tests (${integration.length} files) on a real etcd and kube-apiserver`);
    reason = await missing();
    if (reason === undefined) outcomes.push(await runFiles(integration, { concurrency: INTEGRATION_CONCURRENCY }));
  }
  return verdict(outcomes, reason);
}

/** The exit code, and the last lines that a person reads. */
function verdict(outcomes: Outcome[], reason: string | undefined): number {
  const failed = outcomes.flatMap((outcome) => outcome.failed);
  const skipped = outcomes.flatMap((outcome) => outcome.skipped);
  if (skipped.length > 0) heading(`SKIPPED: ${skipped.length} tests: ${skipped.join("; ")}`);
  if (reason !== undefined) heading(`INTEGRATION TESTS SKIPPED: ${reason}`);
  const isIncomplete = skipped.length > 0 || reason !== undefined;
  if (isCi && isIncomplete) heading("CI=true: a skipped test is a failed run");
  if (failed.length > 0) heading(`FAILED: ${failed.length} tests\n${failed.join("\n")}`);
  return failed.length > 0 || (isCi && isIncomplete) ? 1 : 0;
}

// Ends although something that a file has left may still be open.
process.exit(await main(process.argv.slice(2)));
