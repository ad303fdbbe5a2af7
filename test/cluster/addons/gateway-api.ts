import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../node/run.ts";

const MODULE = join(import.meta.dirname, "..", "modules", "traefik");
const GROUP = "gateway.networking.k8s.io";

/** The folder with a channel's definitions, from the module that our Traefik is built with; fetched if it is not in Go's cache. */
export async function gatewayApiFolder(channel: "standard" | "experimental"): Promise<string> {
  const answer = await run("go", "-C", MODULE, "mod", "download", "-json", "sigs.k8s.io/gateway-api");
  return join((JSON.parse(answer) as { Dir: string }).Dir, "config", "crd", channel);
}

/** YAML of the definitions of one channel, by their plurals. */
export async function gatewayApiDefinitions(
  channel: "standard" | "experimental",
  plurals: readonly string[],
): Promise<string> {
  const folder = await gatewayApiFolder(channel);
  const texts = plurals.map((plural) => readFile(join(folder, `${GROUP}_${plural}.yaml`), "utf8"));
  return (await Promise.all(texts)).join("---\n");
}
