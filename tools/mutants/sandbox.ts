import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type Kept, ROOT } from "./files.ts";
import type { Surroundings } from "./run-test.ts";

/** Copies of the working tree, in another place. They exist until they are disposed of. */
export class Sandboxes implements Disposable {
  readonly #top = mkdtempSync(join(tmpdir(), "mutants-"));
  readonly #files: ReadonlyMap<string, Kept>;
  readonly #signal: AbortSignal;
  #count = 0;

  constructor(files: ReadonlyMap<string, Kept>, signal: AbortSignal) {
    this.#files = files;
    this.#signal = signal;
  }

  /** Makes a fresh copy, with the installed packages. */
  make(): Surroundings {
    const folder = join(this.#top, `${this.#count}`);
    const [tree, temp] = [join(folder, "tree"), join(folder, "tmp")];
    this.#count += 1;
    mkdirSync(temp, { recursive: true });
    for (const [file, { content, mode }] of this.#files) {
      mkdirSync(dirname(join(tree, file)), { recursive: true });
      writeFileSync(join(tree, file), content, { mode });
    }
    // Some tests ask git for the list of files.
    const git = (...args: string[]) => execFileSync("git", args, { cwd: tree, stdio: "pipe" });
    git("init", "--quiet");
    git("add", "--all");
    symlinkSync(join(ROOT, "node_modules"), join(tree, "node_modules"));
    return { tree, temp, signal: this.#signal };
  }

  [Symbol.dispose](): void {
    rmSync(this.#top, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Calls `use` while `file` contains `text` instead of `original`. */
export async function withText<T>(
  { tree }: Surroundings,
  [file, original, text]: [file: string, original: string, text: string],
  use: () => Promise<T>,
): Promise<T> {
  writeFileSync(join(tree, file), text);
  try {
    return await use();
  } finally {
    writeFileSync(join(tree, file), original);
  }
}
