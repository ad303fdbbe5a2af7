import { readFileSync } from "node:fs";
import { join, normalize } from "node:path";

const { imports } = JSON.parse(readFileSync(join(import.meta.dirname, "..", "package.json"), "utf8")) as {
  imports: Record<string, string>;
};

/**
 * Resolves an import in a file of `folder` to a path from the root. The import is a relative path (`../a.ts`) or a
 * name of package.json's `imports` (`#hostmap/plan.ts`).
 */
export function resolveImport(folder: string, specifier: string): string {
  const [name = "", ...rest] = specifier.split("/");
  const path = imports[`${name}/*`];
  return normalize(path === undefined ? join(folder, specifier) : path.replace("*", rest.join("/")));
}
