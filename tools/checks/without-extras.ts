import { execFileSync, spawnSync } from "node:child_process";
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { copyTree } from "#test/copy-tree.ts";

// `npm run without-extras [-- NAME...]`: deletes an extra from a copy of the tree: its folder, its entry in
// cli/extras.ts, and what `npm run gen` generates from it. Then the rest has to pass. `npm run gen` also renders the
// chart.
// Two checks do not run. The tests of the pages under docs/ would find pages that describe the extra.
// `npm run exports` would report what the core offers only to extras.

const LIST = join("cli", "extras.ts");

/** The extras that can be deleted. */
const REMOVABLE = ["agent", "dashboard", "pod-dns", "publishers"];

/** Tests that read the list of extras, the files generated from it, or the files of the image. Each takes seconds. */
const TESTED = ["main", "exit-codes", "completion", "loaded-modules", "status.", "demo/"].map((name) => `cli/${name}`);

/** Each command takes less than a minute on an idle machine. */
const TIMEOUT_MS = 10 * 60_000;

const STEPS: readonly (readonly [string, ...string[]])[] = [
  ["npm", "run", "gen"],
  ["npm", "run", "types"],
  ["npm", "run", "lint"],
  [process.execPath, "test/run.ts", "unit", ...TESTED, "manifests/", "lib/config/"],
];

const names = process.argv.length > 2 ? process.argv.slice(2) : REMOVABLE;
const failed = names.filter((name) => !passesWithout(name));
if (failed.length > 0) process.stderr.write(`\nFAILED without ${failed.join(", ")}\n`);
process.exitCode = failed.length > 0 ? 1 : 0;

function passesWithout(name: string): boolean {
  const copy = mkdtempSync(join(tmpdir(), `switchback-without-${name}-`));
  try {
    process.stdout.write(`\n=== without extras/${name}, in ${copy}\n`);
    copyTree(copy, (path) => !path.startsWith(`extras/${name}/`));
    trackAll(copy);
    removeEntry(join(copy, LIST), name);
    return STEPS.every((command) => passes(command, copy));
  } finally {
    rmSync(copy, { recursive: true });
  }
}

/** Tracks all files of the copy, because some checks ask git for the list of files. */
function trackAll(copy: string): void {
  execFileSync("git", ["init", "-q"], { cwd: copy });
  // .gitignore excludes a folder named node_modules, but here it is a link.
  appendFileSync(join(copy, ".git", "info", "exclude"), "node_modules\n");
  execFileSync("git", ["add", "--all"], { cwd: copy });
}

function removeEntry(list: string, name: string): void {
  const text = readFileSync(list, "utf8");
  const [line = "", entry = ""] =
    new RegExp(`^import \\{ (\\w+) \\} from "#extras/${name}/extra\\.ts";\\n`, "m").exec(text) ?? [];
  if (entry === "") throw new Error(`${LIST} has no entry for ${name}`);
  const entries = text.replace(line, "").replace(new RegExp(`\\b${entry}, |, ${entry}\\b(?=\\])`), "");
  writeFileSync(list, entries);
}

function passes([program, ...args]: readonly [string, ...string[]], cwd: string): boolean {
  const started = performance.now();
  const { status } = spawnSync(program, args, { cwd, stdio: "inherit", timeout: TIMEOUT_MS });
  const seconds = Math.round((performance.now() - started) / 1000);
  process.stdout.write(`=== ${args.join(" ")}: ${status === 0 ? "passed" : "FAILED"}, ${seconds} s\n`);
  return status === 0;
}
