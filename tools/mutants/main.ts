import { writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { head, isProduction, readTree, sourcesOf } from "./files.ts";
import { mutantsOf, sample } from "./mutant.ts";
import { operatorList, progress, report } from "./report.ts";
import { judgeAll } from "./run.ts";

const USAGE = `npm run mutants -- [options]
Changes production code in copies of the working tree, one mutant at a time, and counts which changes the unit tests
notice.
  --sample N    that many mutants; default: all
  --seed S      which ones; default: the commit
  --only PART   files whose path contains PART; may be repeated
  --jobs N      mutants at once; default: the number of cores
  --json FILE   write every result
  --confirm     a test that fails is run again, and counts only if it fails again
  --exhaustive  also run the tests that by their coverage never run the changed text
  --list        print the operators
`;

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      sample: { type: "string" },
      seed: { type: "string" },
      only: { type: "string", multiple: true },
      jobs: { type: "string" },
      json: { type: "string" },
      confirm: { type: "boolean", default: false },
      exhaustive: { type: "boolean", default: false },
      list: { type: "boolean" },
      help: { type: "boolean" },
    },
  });
  if (values.help || values.list) {
    process.stdout.write(values.help ? USAGE : operatorList());
    return 0;
  }
  const { seed = head(), only = [""], confirm, exhaustive } = values;
  const jobs = numberOf(values.jobs, availableParallelism());
  const tree = readTree();
  const sources = sourcesOf(tree);
  const wanted = [...tree.keys()].filter((file) => isProduction(file) && only.some((part) => file.includes(part)));
  if (wanted.length === 0) throw new Error(`no production file has ${only.join(" or ")} in its path`);
  const all = wanted.flatMap((file) => mutantsOf(file, sources.get(file) ?? ""));
  const mutants = sample(all, numberOf(values.sample, all.length), seed, sources);
  say(`${mutants.length} of ${all.length} mutants of ${wanted.length} files, seed "${seed}"`);
  const run = await judgeAll(mutants, tree, {
    jobs,
    confirm,
    exhaustive,
    signal: stopSignal(),
    onBaseline: (test, ms) => say(`  green without a mutant in ${(ms / 1000).toFixed(1)} s: ${test}`),
    onResult: (result, done) => say(`[${done}/${mutants.length}] ${progress(result)}`),
  });
  const { results, flaky, error } = run;
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ seed, flaky, results }, null, 2)}\n`);
  process.stdout.write(report(results, flaky, sources));
  if (error === undefined) return 0;
  say(`ended after ${results.length} of ${mutants.length} mutants: ${messageOf(error)}`);
  return 1;
}

function numberOf(text: string | undefined, otherwise: number): number {
  const number = Number(text ?? otherwise);
  if (!Number.isInteger(number) || number < 1) throw new Error(`${text} is not a number from 1 on`);
  return number;
}

function stopSignal(): AbortSignal {
  const stopping = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stopping.abort(new Error(signal)));
  return stopping.signal;
}

function say(line: string): void {
  process.stderr.write(`${line}\n`);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

try {
  process.exitCode = await main();
} catch (error) {
  say(messageOf(error));
  process.exitCode = 1;
}
