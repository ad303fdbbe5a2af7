import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { GATEWAY_API, releaseOf } from "../modules.ts";
import { moduleFolder, type Release } from "../releases.ts";

const GROUP = "gateway.networking.k8s.io";

/** The folder with the standard channel's definitions. */
export async function gatewayApiFolder(release: Release): Promise<string> {
  return join(await moduleFolder(release), "config", "crd", "standard");
}

/** YAML of the current Gateway API's definitions with these plurals. */
export async function gatewayApiDefinitions(plurals: readonly string[]): Promise<string> {
  const folder = await gatewayApiFolder(GATEWAY_API);
  const texts = plurals.map((plural) => readFile(join(folder, `${GROUP}_${plural}.yaml`), "utf8"));
  return (await Promise.all(texts)).join("---\n");
}

const DEFINITION = "dnsendpoints.externaldns.k8s.io";

/** YAML of the definition of DNSEndpoint, from external-dns' own module. */
export async function dnsEndpointDefinition(): Promise<string> {
  const folder = await moduleFolder(releaseOf("external-dns"));
  return await readFile(join(folder, "config", "crd", "standard", `${DEFINITION}.yaml`), "utf8");
}
