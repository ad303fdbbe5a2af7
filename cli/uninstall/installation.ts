import * as v from "valibot";
import { literalIPs } from "#controller/targets/service-view.ts";
import type { LastStep, UninstallPart } from "#extras/extension-points.ts";
import { TARGET_KEY } from "#hostmap/metadata-keys.ts";
import { restartNamespaces } from "#lib/config/opt-in.ts";
import { parseText } from "#lib/config/parse-text.ts";
import { configSchema } from "#lib/config/schema.ts";
import { targetSchema } from "#lib/config/targets.ts";
import { leniently, section } from "#lib/config/values.ts";
import { CONFIG_NAME, readConfigText } from "#lib/documents/installed-config.ts";
import { frontName } from "#lib/documents/listeners.ts";
import { readTargets } from "#lib/documents/targets-reader.ts";
import { ifFound, SwitchbackError, statusOf } from "#lib/errors/errors.ts";
import { object } from "#lib/errors/schemas.ts";
import { parse } from "#lib/errors/validation.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { listPages } from "#lib/kube/list.ts";
import { corePath } from "#lib/kube/paths.ts";
import type { RawPod } from "#lib/workloads/pods.ts";
import { type AddressHolder, addressHolderOf, byWorkload } from "./address-holders.ts";

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

interface InstalledConfig {
  readonly config: v.InferOutput<typeof installedSchema>;
  readonly sections: Installation["sections"];
  readonly lastSteps: Installation["lastSteps"];
}

/**
 * Reads what is installed in a namespace, including the `parts` of extras. Throws `input-invalid` if nothing is
 * installed there.
 */
export async function readInstallation(
  client: KubeClient,
  namespace: string,
  parts: readonly UninstallPart[] = [],
): Promise<Installation> {
  const { config, sections, lastSteps } = await readConfig(client, namespace, parts);
  const fronts = await client.list<RawService>(corePath("services", namespace), { labelSelector: TARGET_KEY });
  const addresses = new Map(
    fronts.items.flatMap(({ metadata, spec }) => literalIPs(spec).map((address) => [address, metadata.name] as const)),
  );
  // If somebody has deleted a front, the targets still have its address, and pods may still hold it.
  const targets = await ifFound(readTargets(client, namespace));
  for (const { name, clusterIPs, ports } of targets === undefined || "code" in targets ? [] : targets.targets) {
    const hasFront = ports.length > 0 && !config.targets.some((one) => one.name === name && one.clusterIPs.length > 0);
    for (const address of hasFront ? clusterIPs : [])
      if (!addresses.has(address)) addresses.set(address, frontName(name));
  }
  const added = await Promise.all(parts.map((part) => part.addresses?.(client, namespace, sections)));
  for (const [address, service] of added.flatMap((found) => [...(found ?? [])])) addresses.set(address, service);
  addresses.delete("");
  return { addresses, restartNamespaces: new Set(restartNamespaces(config)), lastSteps, sections };
}

async function readConfig(
  client: KubeClient,
  namespace: string,
  parts: readonly UninstallPart[],
): Promise<InstalledConfig> {
  const text = await readConfigText(client, namespace).catch((cause: unknown) => {
    if (statusOf(cause) !== 404) throw cause;
    const missing = `there is no ConfigMap ${CONFIG_NAME} in the namespace ${namespace}`;
    throw new SwitchbackError("input-invalid", `${missing}; is Switchback installed there? (--namespace)`, { cause });
  });
  try {
    const document = (await parseText(text)) ?? {};
    const config = parse(installedSchema, document);
    const sections = document as InstalledConfig["sections"];
    return { config, sections, lastSteps: parts.flatMap(({ lastStep }) => lastStep?.(sections) ?? []) };
  } catch (cause) {
    throw new SwitchbackError("data-corrupt", `the ConfigMap ${CONFIG_NAME} holds no configuration`, { cause });
  }
}

/**
 * The workloads with hosts entries of Switchback, in the cluster or in one namespace. Reads pods page by page and
 * does not keep them.
 */
export async function readHolders(
  client: KubeClient,
  install: Installation,
  namespace?: string,
): Promise<AddressHolder[]> {
  const ours = new Set(install.addresses.keys());
  const found: AddressHolder[] = [];
  for await (const { items } of listPages<RawPod>(client, corePath("pods", namespace))) {
    for (const pod of items) found.push(...[addressHolderOf(pod, ours)].filter((holder) => holder !== undefined));
  }
  return byWorkload(found);
}
