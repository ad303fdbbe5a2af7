import type { Finding } from "#doctor/findings.ts";
import { verdictOf } from "#doctor/report.ts";
import { printable } from "#lib/errors/printable.ts";

/** Maximum number of lines of evidence, and of other findings. */
const MAX_EVIDENCE = 5;
const MAX_OTHERS = 5;
const MAX_HEALTHY = 3;

/** The report for people: one headline, its evidence, the cures once, then other problems. */
export function doctorText(findings: readonly Finding[]): string {
  const { headline, status, about, cures, others } = verdictOf(findings);
  // A cure of what is only unknown waits for the answer.
  const shown = status === "unknown" ? cures.slice(0, 1) : cures;
  const isFault = status === "broken" || status === "warning";
  const title = !isFault ? "Find out:" : shown.length === 1 ? "Cure:" : "Cures, the best first:";
  const numbered = shown.length === 1 ? shown : shown.map((cure, index) => `${index + 1}. ${cure}`);
  const lines = [
    printable(`${headline}.`),
    ...some(about.map(describe), status === "ok" ? MAX_HEALTHY : MAX_EVIDENCE).map(indented),
    ...(shown.length === 0 ? [] : [title]),
    // The further lines of a cure are YAML, or a command.
    ...numbered.flatMap((cure) => cure.split("\n").map((line, index) => indented(index === 0 ? line : `    ${line}`))),
    ...(others.length === 0 ? [] : ["Also:"]),
    ...some(others.flatMap(besides), MAX_OTHERS).map(indented),
  ];
  return lines.map((line) => `${line}\n`).join("");
}

function indented(line: string): string {
  return `  ${printable(line)}`;
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
