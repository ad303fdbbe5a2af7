import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { medianRatio, percentile, progress, type Reporter, type Section } from "./report.ts";
import { ROOT } from "./serve.ts";

/** How often each tree is measured. The trees take turns, because the speed of a shared machine changes. */
const TURNS = 3;

/** One line of a bench's JSON, without its value. */
type Key = Section & { readonly bench: string; readonly figure: string; readonly unit: string };

/**
 * Runs `bench` in another tree and in this one, in turns, each with its own code. Reports each figure's medians, and
 * the median ratio of the turns. `tree` is the folder of another checkout, or a commit. A commit gets a temporary
 * `git worktree` with the packages of this tree. Throws if a bench fails.
 */
export async function runBeside(tree: string, bench: readonly string[], report: Reporter): Promise<void> {
  const isFolder = existsSync(tree);
  const other = isFolder ? resolve(tree) : addWorktree(tree);
  try {
    const seen = new Map<string, Record<"ours" | "theirs", number[]>>();
    for (let turn = 0; turn < TURNS; turn += 1) {
      for (const side of turn % 2 === 0 ? (["theirs", "ours"] as const) : (["ours", "theirs"] as const)) {
        progress(`turn ${turn + 1} of ${TURNS}: ${side === "ours" ? "this tree" : tree}`);
        for (const [key, value] of await figuresOf(side === "ours" ? ROOT : other, bench)) {
          const both = seen.get(key) ?? { ours: [], theirs: [] };
          seen.set(key, both);
          both[side].push(value);
        }
      }
    }
    for (const [key, { ours, theirs }] of seen) {
      const { bench: _, figure, unit, ...section } = JSON.parse(key) as Key;
      report.section(section);
      report.figure(figure, percentile(ours, 0.5), unit);
      if (theirs.length === 0) continue;
      report.figure(`${figure}-before`, percentile(theirs, 0.5), unit);
      report.figure(`${figure}-ratio`, medianRatio(ours, theirs), "x");
    }
  } finally {
    if (!isFolder) execFileSync("git", ["worktree", "remove", "--force", other], { cwd: ROOT });
  }
}

async function figuresOf(tree: string, bench: readonly string[]): Promise<[key: string, value: number][]> {
  const child = spawn(process.execPath, [join("tools", "bench", "main.ts"), ...bench, "--json"], {
    cwd: tree,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, "close")]);
  if (code !== 0) throw new Error(`the bench in ${tree} ended with ${code}`);
  return output
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => {
      const { value, ...key } = JSON.parse(line) as Key & { value: number };
      return [JSON.stringify(key), value];
    });
}

function addWorktree(commit: string): string {
  const folder = join(tmpdir(), `switchback-beside-${process.pid}`);
  execFileSync("git", ["worktree", "add", "--detach", folder, commit], { cwd: ROOT, stdio: "ignore" });
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  return folder;
}
