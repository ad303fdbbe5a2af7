import type { Reason } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";
import type { PublisherState } from "#lib/documents/publisher-state.ts";
import { readPublisherStates } from "#lib/documents/publisher-state-store.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import type { DnsFileFacts } from "./facts.ts";
import { type Fact, readFact } from "./known.ts";

interface RawConfigMap {
  readonly data?: Readonly<Record<string, string>>;
}

/** The usual place of the cluster DNS's files. */
const USUAL = { namespace: "kube-system", names: ["coredns", "coredns-custom"] };

/** The documents of the publishers, by name. */
export async function gatherPublishers(
  client: KubeClient,
  namespace: string,
): Promise<Fact<ReadonlyMap<string, PublisherState | Reason>>> {
  return await readFact({ verb: "list", resource: "configmaps", namespace }, () =>
    readPublisherStates(client, namespace),
  );
}

/** The files of the cluster's CoreDNS: those at the usual place, and those that the publishers' settings name. */
export async function gatherClusterDns(
  client: KubeClient,
  publishers: Config["publishers"] | undefined,
): Promise<Fact<readonly DnsFileFacts[]>> {
  const places = new Set(USUAL.names.map((name) => `${USUAL.namespace}/${name}`));
  if (publishers !== undefined) {
    const { coredns, corednsImport } = publishers;
    places.add(`${coredns.namespace}/${coredns.configMap}`);
    places.add(`${corednsImport.namespace}/${corednsImport.configMap}`);
    places.add(`${corednsImport.namespace}/${corednsImport.corefile.configMap}`);
  }
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
