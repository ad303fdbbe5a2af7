import * as v from "valibot";
import { literalIPs } from "#controller/targets/service-view.ts";
import type { LastStep, UninstallPart } from "#extras/extension-points.ts";
import { OWNED_KEY, TARGET_KEY } from "#hostmap/metadata-keys.ts";
import { holdsResolvers } from "#hostmap/pod-dns-marks.ts";
import { restartNamespaces } from "#lib/config/opt-in.ts";
import { parseText } from "#lib/config/parse-text.ts";
import { configSchema } from "#lib/config/schema.ts";
import { targetSchema } from "#lib/config/targets.ts";
import { leniently, section } from "#lib/config/values.ts";
import { CONFIG_NAME, readConfigText } from "#lib/documents/installed-config.ts";
import { frontName } from "#lib/documents/listeners.ts";
import { readTargets } from "#lib/documents/targets-reader.ts";
import { ifFound, SwitchbackError } from "#lib/errors/errors.ts";
import { object } from "#lib/errors/schemas.ts";
import { parse } from "#lib/errors/validation.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { listPages } from "#lib/kube/list.ts";
import { corePath } from "#lib/kube/paths.ts";
import { ownerOf } from "#lib/workloads/owners.ts";
import { hasEnded, hostAliasesOf, podFacts, type RawPod } from "#lib/workloads/pods.ts";
import type { WorkloadName } from "#lib/workloads/workload-keys.ts";

/** What an uninstall needs to know about the installation. */
export interface Installation {
  /** ClusterIPs that the uninstall frees, each with the name of its Service: a front, or a Service of an extra. */
  readonly addresses: ReadonlyMap<string, string>;
  /** `restart.namespaces` and `optIn.namespaces` of the installed configuration. */
  readonly restartNamespaces: ReadonlySet<string>;
  /** The last steps of extras. */
  readonly lastSteps: readonly LastStep[];
  /** The unchecked sections of the installed configuration. */
  readonly sections: Readonly<Record<string, unknown>>;
}

interface RawService {
  readonly metadata: { readonly name: string };
  readonly spec?: { readonly clusterIP?: string; readonly clusterIPs?: readonly string[] };
}

const { restart, optIn } = configSchema.entries;
const namespacesOf = ({ wrapped }: typeof restart | typeof optIn) =>
  section(object({ namespaces: leniently(v.array(v.string()), wrapped.entries.namespaces) }));

/** Checks only what the uninstall needs, and leniently: the install may have another version. */
const installedSchema = object({
  restart: namespacesOf(restart),
  optIn: namespacesOf(optIn),
  targets: leniently(
    v.array(
      object({
        name: v.string(),
        clusterIPs: leniently(v.array(v.string()), targetSchema.entries.clusterIPs),
      }),
    ),
    configSchema.entries.targets,
  ),
});

/**
 * Reads what is installed in a namespace, including the `parts` of extras. Throws `input-invalid` if nothing is
 * installed there.
 */
export async function readInstallation(
  client: KubeClient,
  namespace: string,
  parts: readonly UninstallPart[] = [],
): Promise<Installation> {
  const text = await ifFound(readConfigText(client, namespace));
  if (text === undefined) {
    const missing = `there is no ConfigMap ${CONFIG_NAME} in the namespace ${namespace}`;
    throw new SwitchbackError("input-invalid", `${missing}; is Switchback installed there? (--namespace)`);
  }
  let config: v.InferOutput<typeof installedSchema>;
  let sections: Installation["sections"];
  let lastSteps: Installation["lastSteps"];
  try {
    sections = ((await parseText(text)) ?? {}) as Installation["sections"];
    config = parse(installedSchema, sections);
    lastSteps = parts.flatMap(({ lastStep }) => lastStep?.(sections) ?? []);
  } catch (cause) {
    throw new SwitchbackError("data-corrupt", `the ConfigMap ${CONFIG_NAME} holds no configuration`, { cause });
  }
  const addresses = new Map(await addressesOfFronts(client, namespace, config));
  const added = await Promise.all(parts.map((part) => part.addresses?.(client, namespace, sections)));
  for (const [address, service] of added.flatMap((found) => [...(found ?? [])])) addresses.set(address, service);
  addresses.delete("");
  return { addresses, restartNamespaces: new Set(restartNamespaces(config)), lastSteps, sections };
}

/** The ClusterIPs of the front Services, each with its Service. */
async function addressesOfFronts(
  client: KubeClient,
  namespace: string,
  config: v.InferOutput<typeof installedSchema>,
): Promise<[string, string][]> {
  const fronts = await client.list<RawService>(corePath("services", namespace), { labelSelector: TARGET_KEY });
  // If somebody has deleted a front, the targets still have its address, and pods may still hold it.
  const targets = await ifFound(readTargets(client, namespace));
  const isFixed = (name: string) => config.targets.some((one) => one.name === name && one.clusterIPs.length > 0);
  const relayed = (targets === undefined || "code" in targets ? [] : targets.targets).filter(
    ({ name, ports }) => ports.length > 0 && !isFixed(name),
  );
  const found = fronts.items.flatMap(({ metadata, spec }) =>
    literalIPs(spec).map((ip): [string, string] => [ip, metadata.name]),
  );
  const remembered = relayed.flatMap(({ name, clusterIPs }) =>
    clusterIPs.map((ip): [string, string] => [ip, frontName(name)]),
  );
  return [...found, ...remembered.filter(([ip]) => found.every(([known]) => known !== ip))];
}

/** The running pods of one workload that have hosts entries or resolvers from Switchback. */
export interface AddressHolder extends WorkloadName {
  /** Whether the workload is a Deployment, StatefulSet or DaemonSet. */
  readonly restartable: boolean;
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
      const { key, namespace: of, kind, name, unrestartable } = ownerOf(facts);
      const known = found.get(key) ?? { pods: [], addresses: [] };
      found.set(key, {
        namespace: of,
        kind,
        name,
        restartable: unrestartable === undefined,
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
  const hasOurResolvers = holdsResolvers({ dnsPolicy: spec?.dnsPolicy, dnsConfig: { nameservers }, annotations });
  const aliases = hostAliasesOf(pod).map(({ ip }) => ip);
  const addresses = [
    ...aliases.filter((ip) => ours.has(ip)),
    ...nameservers.filter((ip) => hasOurResolvers || ours.has(ip)),
  ];
  return addresses.length === 0 && (annotations[OWNED_KEY] ?? "none") === "none" ? undefined : addresses;
}
