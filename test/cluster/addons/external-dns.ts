import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { releaseOf } from "../modules.ts";
import { moduleFolder } from "../releases.ts";

const DEFINITION = "dnsendpoints.externaldns.k8s.io";

/** YAML of the definition of DNSEndpoint, from external-dns' own module. */
export async function dnsEndpointDefinition(): Promise<string> {
  const folder = await moduleFolder(releaseOf("external-dns"));
  return await readFile(join(folder, "config", "crd", "standard", `${DEFINITION}.yaml`), "utf8");
}
