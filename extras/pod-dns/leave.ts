import * as v from "valibot";
import { literalIPs } from "#controller/targets/service-view.ts";
import type { UninstallPart } from "#extras/uninstall-part.ts";
import { section } from "#lib/config/values.ts";
import { object } from "#lib/errors/schemas.ts";
import { parse } from "#lib/errors/validation.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { POD_DNS_SECTION, RESOLVERS } from "./config.ts";

export const POD_DNS_UNINSTALL: UninstallPart = {
  addresses: async (client, namespace, sections) => await resolverAddresses(client, namespace, sections.podDns),
};

interface RawService {
  readonly metadata: { readonly name: string };
  readonly spec?: { readonly clusterIP?: string; readonly clusterIPs?: readonly string[] };
}

/** Reads only one setting, because the install may have another version. */
const { enabled } = POD_DNS_SECTION.schema.wrapped.entries;
const schema = section(object({ enabled: v.optional(v.boolean(), enabled.default) }));

/**
 * Returns the ClusterIPs of the resolvers. If a Service is gone, the pods' own annotations show that they use its
 * address.
 */
async function resolverAddresses(
  client: KubeClient,
  namespace: string,
  settings: unknown,
): Promise<ReadonlyMap<string, string>> {
  if (!parse(schema, settings).enabled) return new Map();
  const services = await client.list<RawService>(corePath("services", namespace));
  const ours = services.items.filter(({ metadata }) => RESOLVERS.includes(metadata.name));
  return new Map(
    ours.flatMap(({ metadata, spec }) => literalIPs(spec).map((address) => [address, metadata.name] as const)),
  );
}
