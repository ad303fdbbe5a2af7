import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { type Fact, readFact } from "./fact.ts";
import type { DnsFileFacts } from "./facts.ts";

interface RawConfigMap {
  readonly data?: Readonly<Record<string, string>>;
}

/** The usual place of the cluster DNS's files. */
const USUAL = { namespace: "kube-system", names: ["coredns", "coredns-custom"] };

/**
 * The files of the cluster's CoreDNS: those in the usual ConfigMaps, and those in the given ConfigMaps
 * (`namespace/name`).
 */
export async function gatherClusterDns(
  client: KubeClient,
  others: readonly string[],
): Promise<Fact<readonly DnsFileFacts[]>> {
  const places = new Set([...USUAL.names.map((name) => `${USUAL.namespace}/${name}`), ...others]);
  const files: DnsFileFacts[] = [];
  for (const place of places) {
    const [namespace = "", name = ""] = place.split("/");
    const permission = { verb: "get", resource: "configmaps", namespace, name };
    const found = await readFact<RawConfigMap>(
      permission,
      () => client.get<RawConfigMap>(corePath("configmaps", namespace, name)),
      { value: {} },
    );
    if (!found.known) return found;
    for (const [key, text] of Object.entries(found.value.data ?? {})) files.push({ place, key, text });
  }
  return { known: true, value: files };
}
