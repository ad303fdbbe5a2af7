import * as v from "valibot";
import { literalIPs } from "#controller/targets/service-view.ts";
import type { UninstallPart, UninstallStep } from "#extras/uninstall-part.ts";
import { OWNED_KEY, TARGET_KEY } from "#hostmap/metadata-keys.ts";
import { holdsResolvers } from "#hostmap/pod-dns-marks.ts";
import { parseText } from "#lib/config/parse-text.ts";
import { CONFIG_NAME, readConfigText } from "#lib/documents/installed-config.ts";
import { frontName } from "#lib/documents/listeners.ts";
import { readTargets } from "#lib/documents/targets-reader.ts";
import { ifFound, SwitchbackError } from "#lib/errors/errors.ts";
import { object } from "#lib/errors/schemas.ts";
import { parse } from "#lib/errors/validation.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { listPages } from "#lib/kube/list.ts";
import { corePath } from "#lib/kube/paths.ts";
import { type Owner, ownerOf } from "#lib/workloads/owners.ts";
import { hasEnded, hostAliasesOf, podFacts, type RawPod } from "#lib/workloads/pods.ts";

/** What an uninstall needs to know about the installation. */
export interface Installation {
  /** ClusterIPs that the uninstall frees, each with the name of its Service: a front, or a Service of an extra. */
  readonly addresses: ReadonlyMap<string, string>;
  /** `restart.namespaces` and `optIn.namespaces` of the installed configuration. */
  readonly restartNamespaces: ReadonlySet<string>;
  /** The steps of extras. */
  readonly steps: readonly UninstallStep[];
  /** The unchecked sections of the installed configuration. */
  readonly sections: Readonly<Record<string, unknown>>;
}

interface RawService {
  readonly metadata: { readonly name: string };
  readonly spec?: { readonly clusterIP?: string; readonly clusterIPs?: readonly string[] };
}

const texts = v.optional(v.array(v.string()), []);
const listing = v.optional(object({ namespaces: texts }), {});

/** Checks only what the uninstall needs, because the install may have another version. */
const installedSchema = object({
  restart: listing,
  optIn: listing,
  targets: v.optional(v.array(object({ clusterIPs: texts })), []),
});

/**
 * Reads what is installed in a namespace, including the `parts` of extras. After `helm uninstall --no-hooks` only what
 * the controller has created is left: then no restart is permitted. Throws `input-invalid` if there is nothing.
 */
export async function readInstallation(
  client: KubeClient,
  namespace: string,
  parts: readonly UninstallPart[],
): Promise<Installation> {
  const text = await ifFound(readConfigText(client, namespace));
  let config: v.InferOutput<typeof installedSchema>;
  let sections: Installation["sections"];
  let steps: Installation["steps"];
  try {
    sections = ((await parseText(text ?? "")) ?? {}) as Installation["sections"];
    config = parse(installedSchema, sections);
    steps = parts.flatMap(({ step }) => step?.(sections) ?? []);
  } catch (cause) {
    throw new SwitchbackError("data-corrupt", `the ConfigMap ${CONFIG_NAME} holds no configuration`, { cause });
  }
  const given = new Set(config.targets.flatMap(({ clusterIPs }) => clusterIPs));
  const fronts = await addressesOfFronts(client, namespace, given);
  if (text === undefined && fronts.size === 0) {
    const missing = `there is no ConfigMap ${CONFIG_NAME} in the namespace ${namespace}`;
    throw new SwitchbackError("input-invalid", `${missing}; is Switchback installed there? (--namespace)`);
  }
  const added = await Promise.all(parts.map((part) => part.addresses?.(client, namespace, sections)));
  const addresses = new Map([...fronts, ...added.flatMap((found) => [...(found ?? [])])]);
  const restartNamespaces = new Set([...config.restart.namespaces, ...config.optIn.namespaces]);
  return { addresses, restartNamespaces, steps, sections };
}

/** The ClusterIPs of the front Services, each with its Service. `given`: addresses of targets that need no front. */
async function addressesOfFronts(
  client: KubeClient,
  namespace: string,
  given: ReadonlySet<string>,
): Promise<Map<string, string>> {
  const fronts = await client.list<RawService>(corePath("services", namespace), { labelSelector: TARGET_KEY });
  // If somebody has deleted a front, the targets still have its address, and pods may still hold it.
  const targets = await ifFound(readTargets(client, namespace));
  const relayed = (targets && "targets" in targets ? targets.targets : []).filter(({ ports }) => ports.length > 0);
  const remembered = relayed.flatMap(({ name, clusterIPs }) =>
    clusterIPs.filter((ip) => !given.has(ip)).map((ip) => [ip, frontName(name)] as const),
  );
  const found = fronts.items.flatMap(({ metadata, spec }) =>
    literalIPs(spec).map((ip) => [ip, metadata.name] as const),
  );
  return new Map([...remembered, ...found]);
}

/** The owner of running pods that have hosts entries or resolvers from Switchback. */
export interface AddressHolder extends Owner {
  readonly pods: readonly string[];
  /**
   * Addresses that any other Service may get after the uninstall. Empty if the names have an ingress controller's own
   * addresses.
   */
  readonly addresses: readonly string[];
}

/**
 * The workloads with hosts entries of Switchback in the cluster, or in one namespace, by their keys. Reads pods page by
 * page and does not keep them.
 */
export async function readHolders(
  client: KubeClient,
  { addresses: ours }: Installation,
  namespace?: string,
): Promise<AddressHolder[]> {
  const found = new Map<string, AddressHolder>();
  for await (const { items } of listPages<RawPod>(client, corePath("pods", namespace))) {
    for (const pod of items) {
      const addresses = addressesOf(pod, ours);
      if (addresses === undefined) continue;
      const facts = podFacts(pod);
      const owner = ownerOf(facts);
      const known = found.get(owner.key) ?? { pods: [], addresses: [] };
      found.set(owner.key, {
        ...owner,
        pods: [...known.pods, facts.name].sort(),
        addresses: [...new Set([...known.addresses, ...addresses])].sort(),
      });
    }
  }
  return [...found.keys()].sort().flatMap((key) => found.get(key) ?? []);
}

/**
 * The addresses of Switchback's Services that a pod holds; undefined if the pod has nothing from Switchback. Aliases
 * and nameservers count even if the webhook did not write them: a template may have them from `switchback inject`, or
 * copied from a pod. Nameservers from pod DNS count even if their Services are gone.
 */
function addressesOf(pod: RawPod, ours: Installation["addresses"]): readonly string[] | undefined {
  if (hasEnded(pod)) return undefined;
  const { metadata, spec } = pod;
  const annotations = metadata?.annotations ?? {};
  const nameservers = spec?.dnsConfig?.nameservers ?? [];
  const hasOurResolvers = holdsResolvers(spec?.dnsPolicy, nameservers, annotations);
  const aliases = hostAliasesOf(pod).map(({ ip }) => ip);
  const addresses = [
    ...aliases.filter((ip) => ours.has(ip)),
    ...nameservers.filter((ip) => hasOurResolvers || ours.has(ip)),
  ];
  return addresses.length === 0 && (annotations[OWNED_KEY] ?? "none") === "none" ? undefined : addresses;
}
