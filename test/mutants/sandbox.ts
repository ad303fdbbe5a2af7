import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { ROOT } from "./files.ts";
import type { Surroundings } from "./run-test.ts";

/** Copies of the working tree, outside of it, until they are disposed of. */
export class Sandboxes implements Disposable {
  readonly #top = mkdtempSync(join(tmpdir(), "mutants-"));
  readonly #files: string[];
  readonly #sources: ReadonlyMap<string, string>;
  readonly #signal: AbortSignal;
  #count = 0;

  /** `sources` has the texts that the copies get even if the working tree changes meanwhile. */
  constructor(files: string[], sources: ReadonlyMap<string, string>, signal: AbortSignal) {
    this.#files = files;
    this.#sources = sources;
    this.#signal = signal;
  }

  /** A fresh copy, with the installed packages. */
  make(): Surroundings {
    const folder = join(this.#top, `${this.#count}`);
    const [tree, temp] = [join(folder, "tree"), join(folder, "tmp")];
    this.#count += 1;
    mkdirSync(temp, { recursive: true });
    for (const file of this.#files) {
      const copy = join(tree, file);
      mkdirSync(dirname(copy), { recursive: true });
      cpSync(join(ROOT, file), copy);
      const source = this.#sources.get(file);
      if (source !== undefined) writeFileSync(copy, source);
    }
    symlinkSync(join(ROOT, "node_modules"), join(tree, "node_modules"));
    return { tree, temp, signal: this.#signal };
  }

  [Symbol.dispose](): void {
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
