import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { moduleFolder } from "./go-module.ts";

const SOURCE = "sigs.k8s.io/gateway-api";
const GROUP = "gateway.networking.k8s.io";

/**
 * The folder with the standard channel's definitions, in the version that one of our modules requires. Fetched if it
 * is not in Go's cache.
 */
export async function gatewayApiFolder(module: "gateway-api" | "traefik"): Promise<string> {
  return join(await moduleFolder(module, SOURCE), "config", "crd", "standard");
}

/** YAML of the current Gateway API's definitions with these plurals. */
export async function gatewayApiDefinitions(plurals: readonly string[]): Promise<string> {
  const folder = await gatewayApiFolder("gateway-api");
  const texts = plurals.map((plural) => readFile(join(folder, `${GROUP}_${plural}.yaml`), "utf8"));
  return (await Promise.all(texts)).join("---\n");
}
