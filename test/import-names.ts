import { readFileSync } from "node:fs";
import { join, normalize } from "node:path";

const { imports } = JSON.parse(readFileSync(join(import.meta.dirname, "..", "package.json"), "utf8")) as {
  imports: Record<string, string>;
};

/**
 * The path from the root of what a file of `folder` imports: `../a.ts`, or a name of package.json's `imports` such as
 * `#hostmap/plan.ts`.
 */
export function resolveImport(folder: string, specifier: string): string {
  const [name = "", ...rest] = specifier.split("/");
  const path = imports[`${name}/*`];
  return normalize(path === undefined ? join(folder, specifier) : path.replace("*", rest.join("/")));
}
