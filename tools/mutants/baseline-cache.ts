import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Coverage } from "./coverage.ts";
import { type Graph, reachedFrom } from "./graph.ts";

/** A green run of a test file on the unchanged tree. */
export interface Baseline {
  ms: number;
  coverage: Coverage;
  /** Whether the test failed before it was green. Then it must fail twice with a mutant. */
  isFlaky: boolean;
}

interface Entry {
  key: string;
  ms: number;
  isFlaky: boolean;
  coverage: Record<string, [start: number, end: number][]>;
}

/**
 * Baselines of earlier runs. Each is valid until a file that its test reaches changes, or a file that is not
 * TypeScript.
 */
export class BaselineCache {
  readonly #folder: string;
  readonly #graph: Graph;
  readonly #sources: ReadonlyMap<string, string>;
  readonly #others: string;

  /** `others` is a digest of everything that tests depend on, except `sources`. */
  constructor(folder: string, graph: Graph, sources: ReadonlyMap<string, string>, others: string) {
    this.#folder = folder;
    this.#graph = graph;
    this.#sources = sources;
    this.#others = others;
  }

  get(test: string): Baseline | undefined {
    const entry = this.#read(test);
    if (entry === undefined || entry.key !== this.#key(test)) return undefined;
    const { ms, isFlaky, coverage } = entry;
    return { ms, isFlaky, coverage: new Map(Object.entries(coverage)) };
  }

  /** Replaces the file instead of writing to it: copies of the folder may share it by hard links. */
  set(test: string, { ms, isFlaky, coverage }: Baseline): void {
    const entry: Entry = { key: this.#key(test), ms, isFlaky, coverage: Object.fromEntries(this.#known(coverage)) };
    mkdirSync(this.#folder, { recursive: true });
    const path = this.#path(test);
    writeFileSync(`${path}.${process.pid}`, JSON.stringify(entry));
    renameSync(`${path}.${process.pid}`, path);
  }

  #known(coverage: Coverage): [file: string, spans: [number, number][]][] {
    return [...coverage].filter(([file]) => this.#sources.has(file)).map(([file, spans]) => [file, [...spans]]);
  }

  #read(test: string): Entry | undefined {
    try {
      return JSON.parse(readFileSync(this.#path(test), "utf8")) as Entry;
    } catch {
      return undefined;
    }
  }

  #path(test: string): string {
    return join(this.#folder, `${test.replaceAll("/", "-")}.json`);
  }

  #key(test: string): string {
    const hash = createHash("sha256").update(this.#others);
    for (const file of reachedFrom(this.#graph, test)) hash.update(`\0${file}\0${this.#sources.get(file)}`);
    return hash.digest("hex");
  }
}
