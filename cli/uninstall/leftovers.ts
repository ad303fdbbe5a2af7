import { CA_SECRET, TLS_SECRET } from "#certs/objects.ts";
import type { UninstallPart } from "#extras/extension-points.ts";
import { TARGET_KEY } from "#hostmap/metadata-keys.ts";
import { MAP_NAME } from "#lib/documents/map-format.ts";
import { STATUS_SECRET } from "#lib/documents/status-page.ts";
import { TARGETS_NAME } from "#lib/documents/targets-format.ts";
import { SwitchbackError, statusOf } from "#lib/errors/errors.ts";
import { METADATA_LIST } from "#lib/kube/accept.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath, resourcePath } from "#lib/kube/paths.ts";
import { pause } from "#lib/kube/time.ts";

interface LeftoversOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  /** How long the controller may take to end, milliseconds. */
  readonly timeoutMs: number;
  readonly now: () => number;
  readonly say: (line: string) => void;
  /** The parts of extras. */
  readonly parts?: readonly Pick<UninstallPart, "configMaps">[];
}

interface Named {
  readonly metadata: { readonly name: string };
}

const CONTROLLER_PODS = "app.kubernetes.io/name=switchback,app.kubernetes.io/component in (controller,all)";
/**
 * The CA that cert-manager keeps for the chart's Certificates: it does not delete the Secrets of deleted
 * Certificates.
 */
const CERT_MANAGER_CA = "switchback-cert-manager-ca";
/** ConfigMaps with the map, and with the proxies' targets. */
const OTHER_MAPS: readonly string[] = [MAP_NAME, TARGETS_NAME];
const POLL_MS = 500;

/**
 * Deletes the objects that were created at run time, and are in no chart and no manifest: front Services, the map,
 * the extras' ConfigMaps, Secrets and the election's Lease. First waits until no controller runs, because it would
 * recreate them. Throws `still-held` if one still runs after `timeoutMs`.
 */
export async function removeLeftovers(options: LeftoversOptions): Promise<void> {
  const { client, namespace, say } = options;
  await controllersGone(options);
  const lease = { group: "coordination.k8s.io", version: "v1", resource: "leases", namespace };
  const added = await Promise.all((options.parts ?? []).map(({ configMaps }) => configMaps?.(client, namespace) ?? []));
  const paths = [
    ...(await labelled(client, "services", namespace, TARGET_KEY)),
    ...[...added.flat(), ...OTHER_MAPS].map((name) => corePath("configmaps", namespace, name)),
    ...[CA_SECRET, TLS_SECRET, CERT_MANAGER_CA, STATUS_SECRET].map((name) => corePath("secrets", namespace, name)),
    resourcePath({ ...lease, name: "switchback-controller" }),
  ];
  for (const path of paths) if (await remove(client, path)) say(`deleted ${path.split("/").slice(-2).join("/")}`);
}

async function controllersGone({ client, namespace, timeoutMs, now }: LeftoversOptions): Promise<void> {
  const deadline = now() + timeoutMs;
  for (;;) {
    const { items } = await client.list<Named>(corePath("pods", namespace), { labelSelector: CONTROLLER_PODS });
    if (items.length === 0) return;
    if (now() >= deadline) {
      const names = items.map(({ metadata }) => metadata.name).join(", ");
      throw new SwitchbackError("still-held", `a controller still runs, and would recreate what is deleted: ${names}`);
    }
    await pause(POLL_MS);
  }
}

async function labelled(client: KubeClient, resource: string, namespace: string, labelSelector: string) {
  const { items } = await client.list<Named>(
    corePath(resource, namespace),
    { labelSelector },
    { accept: METADATA_LIST },
  );
  return items.map(({ metadata }) => corePath(resource, namespace, metadata.name));
}

async function remove(client: KubeClient, path: string): Promise<boolean> {
  try {
    await client.delete(path);
    return true;
  } catch (error) {
    if (statusOf(error) === 404) return false;
    throw error;
  }
}
