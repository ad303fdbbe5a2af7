import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { ROOT } from "./files.ts";
import type { Surroundings } from "./run-test.ts";

/** Copies of the working tree, outside of it. */
export class Sandboxes {
  readonly #top = mkdtempSync(join(tmpdir(), "mutants-"));
  #count = 0;

  /** A fresh copy of `files`, with the installed packages. */
  make(files: string[], signal: AbortSignal): Surroundings {
    const tree = join(this.#top, `${this.#count}`, "tree");
    const temp = join(this.#top, `${this.#count}`, "tmp");
    this.#count += 1;
    mkdirSync(temp, { recursive: true });
    for (const file of files) {
      mkdirSync(dirname(join(tree, file)), { recursive: true });
      cpSync(join(ROOT, file), join(tree, file));
    }
    symlinkSync(join(ROOT, "node_modules"), join(tree, "node_modules"));
    return { tree, temp, signal };
  }

  remove(): void {
    rmSync(this.#top, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Runs `use` while `file` holds `text` instead of `original`. */
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
