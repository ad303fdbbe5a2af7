import { writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { head, isProduction, isUnitTest, readSources, treeFiles } from "./files.ts";
import { graphOf } from "./graph.ts";
import { Judge, RedBaseline, type Result } from "./judge.ts";
import { type Mutant, mutantsOf, sample } from "./mutant.ts";
import { describe, operatorList, report } from "./report.ts";
import { Sandboxes } from "./sandbox.ts";

// `npm run mutants -- [--sample N] [--seed S] [--only PATH_PART]... [--jobs N] [--json FILE] [--list]`: changes production code in
// copies of the working tree, one mutant at a time, and counts which changes the unit tests notice.

const MAX_LINE = 200;

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      sample: { type: "string" },
      seed: { type: "string" },
      only: { type: "string", multiple: true },
      jobs: { type: "string" },
      json: { type: "string" },
      list: { type: "boolean" },
    },
  });
  if (values.list) {
    process.stdout.write(operatorList());
    return 0;
  }
  const files = treeFiles();
  const sources = readSources(files);
  const seed = values.seed ?? head();
  const only = values.only ?? [""];
  const wanted = files.filter((file) => isProduction(file) && only.some((part) => file.includes(part)));
  const all = wanted.flatMap((file) => mutantsOf(file, sources.get(file) ?? ""));
  const mutants = sample(all, numberOf(values.sample, all.length), seed, sources);
  say(`${mutants.length} of ${all.length} mutants of ${wanted.length} files, seed ${JSON.stringify(seed)}`);
  const results = await judgeAll(mutants, files, sources, numberOf(values.jobs, availableParallelism()));
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ seed, results }, null, 2)}\n`);
  process.stdout.write(report(results, sources));
  return 0;
}

function numberOf(text: string | undefined, otherwise: number): number {
  const number = Number(text ?? otherwise);
  if (!Number.isInteger(number) || number < 0) throw new Error(`${text} is not a number`);
  return number;
}

async function judgeAll(
  mutants: Mutant[],
  files: string[],
  sources: Map<string, string>,
  jobs: number,
): Promise<Result[]> {
  const stopping = new AbortController();
  const sandboxes = new Sandboxes();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stopping.abort(new Error(signal)));
  const results: Result[] = [];
  try {
    const clean = sandboxes.make(files, stopping.signal);
    const judge = new Judge(sources, graphOf(sources), { clean, isTest: isUnitTest });
    const waiting = [...mutants];
    const work = async (): Promise<void> => {
      const place = sandboxes.make(files, stopping.signal);
      for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift()) {
        const result = await judge.judge(mutant, place);
        results.push(result);
        const seconds = (result.ms / 1000).toFixed(1);
        const by = result.by === undefined ? `${result.tests} test files` : result.by;
        say(`[${results.length}/${mutants.length}] ${result.verdict} ${seconds} s ${describe(result)} (${by})`);
      }
    };
    const workers = Array.from({ length: Math.min(jobs, mutants.length) }, work);
    await Promise.all(workers).catch(async (error: unknown) => {
      stopping.abort(error);
      await Promise.allSettled(workers);
      throw error;
    });
  } finally {
    sandboxes.remove();
  }
  return results;
}

function say(line: string): void {
  process.stderr.write(`${line.replace(/\s+/g, " ").slice(0, MAX_LINE)}\n`);
}

try {
  process.exitCode = await main();
} catch (error) {
  process.stderr.write(`${error instanceof RedBaseline || error instanceof Error ? error.message : error}\n`);
  process.exitCode = 1;
}
