import type { Finding, FindingStatus } from "#doctor/findings.ts";
import { verdictOf } from "#doctor/report.ts";
import { printable } from "#lib/errors/printable.ts";
import { wrap } from "./layout.ts";
import { paint, type Style } from "./output.ts";

const STYLES: Readonly<Record<FindingStatus, Style>> = {
  ok: "good",
  unknown: "warning",
  warning: "warning",
  broken: "bad",
};
/** Maximum number of lines of evidence, and of other findings. */
const MAX_EVIDENCE = 5;
const MAX_OTHERS = 5;
const MAX_HEALTHY = 3;
const INDENT = 2;

/**
 * The report for people: one headline, its evidence, the cures once, then other problems. Without `columns` no line is
 * wrapped.
 */
export function doctorText(findings: readonly Finding[], columns?: number): string {
  const { headline, status, about, cures, others } = verdictOf(findings);
  const lines = (text: string, indent = INDENT) => wrap(printable(text), columns, indent + INDENT);
  const evidence = about.map(describe);
  const most = status === "ok" ? MAX_HEALTHY : MAX_EVIDENCE;
  // A cure of what is only unknown waits for the answer.
  const shown = status === "unknown" ? cures.slice(0, 1) : cures;
  const title = status === "unknown" ? "Find out:" : shown.length === 1 ? "Cure:" : "Cures, the best first:";
  const blocks = [
    some(evidence, most).flatMap((text) => lines(`  ${text}`)),
    shown.length === 0
      ? []
      : [title, ...shown.flatMap((cure, index) => cureLines(cure, shown.length === 1 ? "" : `${index + 1}. `, lines))],
    others.length === 0
      ? []
      : ["Also:", ...some(others.flatMap(besides), MAX_OTHERS).flatMap((text) => lines(`  ${text}`))],
  ];
  const [first = "", ...more] = lines(`${headline}.`, 0);
  return [paint(STYLES[status], first), ...more, ...blocks.flat()].map((line) => `${line}\n`).join("");
}

function describe({ subject, evidence }: Pick<Finding, "subject" | "evidence">): string {
  return `${subject}: ${evidence}`;
}

function besides(finding: Finding): string {
  const [cure] = finding.cures;
  return `${finding.status}: ${describe(finding)}${cure === undefined ? "" : `; ${cure}`}`;
}

/** The first texts, and the number of the others. */
function some(texts: readonly string[], most: number): string[] {
  const all = [...new Set(texts)];
  return all.length <= most ? all : [...all.slice(0, most - 1), `and ${all.length - most + 1} more: -o json has all`];
}

/** A command, as a cure ends with it. */
const COMMAND = /(?:^|: |, or )(?:kubectl|helm|switchback) /;

/** The lines of a cure. Commands and YAML stay in one piece, so that a reader can copy them. */
function cureLines(cure: string, number: string, lines: (text: string) => string[]): string[] {
  const [first = "", ...more] = cure.split("\n");
  const text = `  ${number}${first}`;
  const start = COMMAND.test(first) ? [printable(text)] : lines(text);
  return [...start, ...more.map((line) => `      ${printable(line)}`)];
}
