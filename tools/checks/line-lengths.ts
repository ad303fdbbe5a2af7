import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

// Lists lines of code, comments and texts that are longer than Biome's line width: Biome wraps code, but not comments
// and texts. Two kinds of lines are allowed: those without a place to break, such as a URL, and regular expressions.

const MAX_LENGTH = 120;
/** A run of this many characters without a space cannot be split. */
const UNSPLIT = /\S{80}/;
const REGULAR_EXPRESSION = /^\s*(?:\w+: )?\//;
const COMMENT = /^\s*\/[/*]/;

/** Files that may have long lines, with the reason. */
const EXCEPTED: ReadonlyMap<string, string> = new Map([["doctor/probe/program.ts", "generated"]]);

const files = execFileSync("git", ["ls-files", "-z", "*.ts", "*.tsx", "*.js", "*.css", "*.html"], { encoding: "utf8" })
  .split("\0")
  .filter((path) => path !== "" && !EXCEPTED.has(path));
const long = files.flatMap((path) =>
  readFileSync(path, "utf8")
    .split("\n")
    .flatMap((line, index) => (isTooLong(line) ? [`${path}:${index + 1}: ${line.length} characters`] : [])),
);
for (const line of long) process.stderr.write(`${line}; at most ${MAX_LENGTH}\n`);
process.exitCode = long.length > 0 ? 1 : 0;

function isTooLong(line: string): boolean {
  if (line.length <= MAX_LENGTH || UNSPLIT.test(line)) return false;
  return COMMENT.test(line) || !REGULAR_EXPRESSION.test(line);
}
