import { readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { isProduction, sourceFiles } from "./imports.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const EXPORT = /^export (?:abstract |async )*(?:function\*?|class|interface|type|const|let) (?<name>[\w$]+)/gm;
const NAMED = /^(?:import|export)(?: type)? \{(?<names>[^}]*)\} from "(?<from>[.#][^"]+)"/gm;
const WHOLE = /^import(?: type)? \* as (?<name>\w+) from "(?<from>[.#][^"]+)"/gm;
const LAZY = /import\(\s*"(?<from>[.#][^"]+)"/g;
/** A module that is chosen when the code runs: any file of that folder. */
const CHOSEN = /`(?<folder>[^`$]*)\$\{\w+\}\.ts`/g;
/** A file's name in a text, but for statements that import it. */
const TEXT = /(?<!\b(?:from|import) )"(?<path>[\w./-]+\.ts)"/g;
/** Generators write files of the product from its code. */
const isGenerator = (file: string) => file.startsWith("tools/gen/");

/** An export that is not needed, and why. */
export interface NeedlessExport {
  readonly file: string;
  readonly name: string;
  /** `unused`: no other file imports it. `tests-only`: only tests do, and its own file does not use it either. */
  readonly why: "unused" | "tests-only";
}

/** The needless exports of the production files of the working tree. */
export function needlessExportsOfTree(): NeedlessExport[] {
  return needlessExports(new Map(sourceFiles().map((file) => [file, readFileSync(join(ROOT, file), "utf8")])));
}

/**
 * The needless exports among `sources` (path to text). An import counts by name; `import * as` and `import()` count for every name
 * that stands anywhere in the importing file, and so does a file's name in a text (a module that a child process loads).
 */
export function needlessExports(sources: ReadonlyMap<string, string>): NeedlessExport[] {
  const users = new Map<string, Set<string>>();
  for (const [file, source] of sources) {
    for (const used of usedBy(file, source, sources)) users.set(used, (users.get(used) ?? new Set()).add(file));
  }
  return [...sources]
    .filter(([file]) => isProduction(file))
    .flatMap(([file, source]) =>
      exportsOf(source).flatMap((name): NeedlessExport[] => {
        const importers = [...(users.get(`${file} ${name}`) ?? [])];
        // Chosen by its folder: tools/bench/main.ts.
        if (/^tools\/bench\/[a-z]+\/main\.ts$/.test(file) && name === "run") return [];
        if (importers.length === 0) return [{ file, name, why: "unused" }];
        const isUsed = importers.some((one) => isProduction(one) || isGenerator(one)) || occurrences(source, name) > 1;
        return isUsed ? [] : [{ file, name, why: "tests-only" }];
      }),
    );
}

function exportsOf(source: string): string[] {
  return [...new Set([...source.matchAll(EXPORT)].map(({ groups }) => groups?.name ?? ""))];
}

function usedBy(file: string, source: string, sources: ReadonlyMap<string, string>): string[] {
  const target = (from: string) =>
    from.startsWith("#") ? from.slice(1).replace(/^hostmap\//, "lib/hostmap/") : normalize(join(dirname(file), from));
  const named = [...source.matchAll(NAMED)].flatMap(({ groups = {} }) =>
    (groups.names ?? "")
      .split(",")
      .map((name) =>
        name
          .trim()
          .replace(/^type /, "")
          .replace(/ as .*/, ""),
      )
      .filter((name) => name !== "")
      .map((name) => `${target(groups.from ?? "")} ${name}`),
  );
  const whole = [...source.matchAll(WHOLE), ...source.matchAll(LAZY)].flatMap(({ groups = {} }) =>
    groups.from === undefined ? [] : [target(groups.from)],
  );
  const chosen = [...source.matchAll(CHOSEN)].flatMap(({ groups = {} }) => {
    const folder = dirname(target(`${groups.folder}x.ts`));
    return [...sources.keys()].filter((other) => dirname(other) === folder);
  });
  const inTexts = [...source.matchAll(TEXT)].map(({ groups = {} }) => target(groups.path ?? ""));
  return [...named, ...[...whole, ...chosen, ...inTexts].flatMap((other) => wordsIn(source, other, sources))];
}

/** Of a file that is loaded as a whole: its exports that the loading file mentions. */
function wordsIn(source: string, other: string, sources: ReadonlyMap<string, string>): string[] {
  return exportsOf(sources.get(other) ?? "")
    .filter((name) => occurrences(source, name) > 0)
    .map((name) => `${other} ${name}`);
}

function occurrences(source: string, name: string): number {
  return source.match(new RegExp(`(?<![\\w$])${name.replaceAll("$", "\\$")}(?![\\w$])`, "g"))?.length ?? 0;
}
