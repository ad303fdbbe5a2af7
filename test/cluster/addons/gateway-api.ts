import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../node/run.ts";

const MODULES = join(import.meta.dirname, "..", "modules");
const SOURCE = "sigs.k8s.io/gateway-api";
const GROUP = "gateway.networking.k8s.io";

/** The folder with the standard channel's definitions as one of our modules has them; fetched if they are not in Go's cache. */
export async function gatewayApiFolder(module: "gateway-api" | "traefik"): Promise<string> {
  const inModule = (...args: string[]) => run("go", "-C", join(MODULES, module), ...args);
  // An older Go than the module asks for verifies and unpacks it all the same, and then fails: nothing of it is compiled.
  const failure = await inModule("mod", "download", SOURCE).then(
    () => undefined,
    (error: unknown) => error,
  );
  const folder = (await inModule("list", "-m", "-f", "{{.Dir}}", SOURCE)).trim();
  if (folder === "") throw failure;
  return join(folder, "config", "crd", "standard");
}

/** YAML of the definitions of today's Gateway API, by their plurals. */
export async function gatewayApiDefinitions(plurals: readonly string[]): Promise<string> {
  const folder = await gatewayApiFolder("gateway-api");
  const texts = plurals.map((plural) => readFile(join(folder, `${GROUP}_${plural}.yaml`), "utf8"));
  return (await Promise.all(texts)).join("---\n");
}
