import { join } from "node:path";
import { run } from "../node/run.ts";

const MODULES = join(import.meta.dirname, "..", "modules");

/**
 * The folder of a Go module's source, in the version that one of our modules requires. Fetched if it is not in Go's
 * cache.
 */
export async function moduleFolder(module: string, source: string): Promise<string> {
  const inModule = (...args: string[]) => run("go", "-C", join(MODULES, module), ...args);
  // If the module asks for a newer Go, an older Go still verifies and unpacks it, and then fails. That is enough,
  // because nothing is compiled here.
  const failure = await inModule("mod", "download", source).then(
    () => undefined,
    (error: unknown) => error,
  );
  const folder = (await inModule("list", "-m", "-f", "{{.Dir}}", source)).trim();
  if (folder === "") throw failure;
  return folder;
}
