import { join } from "node:path";
import { run } from "../node/run.ts";

const MODULES = join(import.meta.dirname, "..", "modules");

/** The folder of a Go module's source as one of our modules has it; fetched if it is not in Go's cache. */
export async function moduleFolder(module: string, source: string): Promise<string> {
  const inModule = (...args: string[]) => run("go", "-C", join(MODULES, module), ...args);
  // An older Go than the module asks for verifies and unpacks it all the same, and then fails: nothing of it is
  // compiled.
  const failure = await inModule("mod", "download", source).then(
    () => undefined,
    (error: unknown) => error,
  );
  const folder = (await inModule("list", "-m", "-f", "{{.Dir}}", source)).trim();
  if (folder === "") throw failure;
  return folder;
}
