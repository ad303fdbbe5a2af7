import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

/** One import of a file of this repository by another; paths are relative to the root. */
export interface Import {
  readonly from: string;
  readonly to: string;
  /** `type`: gone when the code runs. `lazy`: `import()`, when the code asks for it. */
  readonly kind: "value" | "type" | "lazy";
}

const ROOT = join(import.meta.dirname, "..", "..");
const STATEMENT =
  /^(?:import|export)\b(?<type> type\b)?[^"';]*?\bfrom "(?<from>[.#][^"]+)"|^import "(?<bare>[.#][^"]+)"/gm;
const CALL = /\bimport\(\s*"(?<to>[.#][^"]+)"/g;

/** Production code: what is neither a test nor a helper of tests. */
export function isProduction(file: string): boolean {
  return !/\.test\.ts$|^test\/|^tools\/(?:gen|mutants)\/|\/(?:conformance|integration|e2e)\/|^examples\//.test(file);
}

/** Every TypeScript file of the working tree that git does not ignore. */
export function sourceFiles(): string[] {
  const args = ["ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", "*.ts", "*.tsx"];
  return execFileSync("git", args, { cwd: ROOT, encoding: "utf8" }).trim().split("\n").sort();
}

/** The imports that production files make of files of this repository. */
export function productionImports(): Import[] {
  return sourceFiles()
    .filter(isProduction)
    .flatMap((file) => importsOf(file, readFileSync(join(ROOT, file), "utf8")));
}

/** The imports that a source text makes of files beside it. */
export function importsOf(file: string, source: string): Import[] {
  const to = (specifier: string) =>
    specifier.startsWith("#")
      ? specifier.slice(1).replace(/^hostmap\//, "lib/hostmap/")
      : normalize(join(dirname(file), specifier));
  const statements = [...source.matchAll(STATEMENT)].map(({ groups = {} }): Import => {
    const kind = groups.type === undefined ? "value" : "type";
    return { from: file, to: to(groups.from ?? groups.bare ?? ""), kind };
  });
  const calls = [...source.matchAll(CALL)].map(
    ({ groups = {} }): Import => ({ from: file, to: to(groups.to ?? ""), kind: "lazy" }),
  );
  return [...statements, ...calls];
}
