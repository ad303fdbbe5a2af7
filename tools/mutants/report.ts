import { basename, dirname } from "node:path";
import { EQUIVALENTS, type Equivalent, equivalentOf } from "./equivalents.ts";
import type { Result } from "./judge.ts";
import type { Mutant } from "./mutant.ts";
import { OPERATORS } from "./operators.ts";

const MAX_TEXT = 60;
const MAX_LINE = 240;

function isKilled({ outcome }: Result): boolean {
  return outcome === "killed" || outcome === "timeout";
}

function describe({ file, line, operator, original, text }: Mutant): string {
  return `${file}:${line} ${operator}: ${short(original)} -> ${short(text === "" ? "(nothing)" : text)}`;
}

/** The result of a mutant in one line. */
export function progress(result: Result): string {
  const { outcome, ms, by, tests } = result;
  const line = `${outcome} ${(ms / 1000).toFixed(1)} s ${describe(result)} (${by ?? `${tests} test files`})`;
  return line.replace(/\s+/g, " ").slice(0, MAX_LINE);
}

function short(text: string): string {
  const line = text.replace(/\s+/g, " ");
  return line.length > MAX_TEXT ? `${line.slice(0, MAX_TEXT - 3)}...` : line;
}

/** A report for people: the kill rate by folder, then the surviving mutants. */
export function report(
  results: Result[],
  flaky: string[],
  sources: ReadonlyMap<string, string>,
  equivalents = EQUIVALENTS,
): string {
  const known = new Map<Result, Equivalent>();
  for (const result of results) {
    const equivalent = isKilled(result) ? undefined : equivalentOf(result, sources.get(result.file) ?? "", equivalents);
    if (equivalent !== undefined) known.set(result, equivalent);
  }
  const survivors = results.filter((result) => !isKilled(result)).sort(byPlace);
  const unknown = survivors.filter((result) => !known.has(result));
  return [
    ...table(results),
    rate(
      "all, without known equivalents",
      results.filter((result) => !known.has(result)),
    ),
    "",
    `survivors (${unknown.length}):`,
    ...unknown.map((result) => `  ${describe(result)}${result.outcome === "not covered" ? " [no test runs it]" : ""}`),
    `known equivalents (${known.size}):`,
    ...[...known].map(([result, { reason }]) => `  ${describe(result)}: ${reason}`),
    ...(flaky.length > 0 ? [`flaky without any mutant: ${flaky.join(", ")}`] : []),
    ...results.flatMap((result) =>
      (result.flaky ?? []).map((by) => `failed once, then passed: ${describe(result)} (${by})`),
    ),
    "",
  ].join("\n");
}

function table(results: Result[]): string[] {
  const groups = new Map<string, Result[]>();
  for (const result of results) {
    const folder = dirname(result.file);
    const top = folder.split("/")[0] ?? folder;
    const names = new Set([top, folder, ...(basename(result.file) === "run.ts" ? ["every run.ts"] : [])]);
    for (const name of names) groups.set(name, [...(groups.get(name) ?? []), result]);
  }
  const rows = [...groups].sort(([a], [b]) => (a < b ? -1 : 1));
  return [...rows.map(([name, group]) => rate(name.includes("/") ? `  ${name}` : name, group)), rate("all", results)];
}

function rate(name: string, results: Result[]): string {
  const killed = results.filter(isKilled).length;
  const percent = results.length === 0 ? "-" : `${((100 * killed) / results.length).toFixed(1)} %`;
  return `${name.padEnd(34)} ${`${killed}/${results.length}`.padStart(9)} ${percent.padStart(8)}`;
}

function byPlace(a: Result, b: Result): number {
  return a.file === b.file ? a.start - b.start : a.file < b.file ? -1 : 1;
}

/** Lists the operators, one per line. */
export function operatorList(): string {
  const lines = OPERATORS.map(
    ({ name, isStrykers, does, example: [original, mutated] }) =>
      `${name}${isStrykers ? "" : " (not Stryker's)"}: ${does}\n    ${original}  ->  ${mutated}\n`,
  );
  return lines.join("");
}
