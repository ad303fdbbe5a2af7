import { CA_SECRET, TLS_SECRET } from "#certs/objects.ts";
import { TARGET_KEY } from "#hostmap/metadata-keys.ts";
import { MAP_NAME } from "#lib/documents/map-format.ts";
import { STATUS_SECRET } from "#lib/documents/status-page.ts";
import { TARGETS_NAME } from "#lib/documents/targets-format.ts";
import { ifFound, SwitchbackError, statusOf } from "#lib/errors/errors.ts";
import { METADATA_LIST } from "#lib/kube/accept.ts";
import { corePath, resourcePath } from "#lib/kube/paths.ts";
import { NOT_ENDED } from "#lib/workloads/pods.ts";
import { waitForRestart } from "#lib/workloads/restart.ts";
import { workloadPath } from "#lib/workloads/workload-kinds.ts";
import type { UninstallOptions } from "./release-pods.ts";

interface Named {
  readonly metadata: { readonly name: string };
}

/** The Deployments that run the controller, in either profile. */
const CONTROLLERS = ["switchback-controller", "switchback-all"];
const CONTROLLER_PODS = "app.kubernetes.io/name=switchback,app.kubernetes.io/component in (controller,all)";
/**
 * The CA that cert-manager keeps for the chart's Certificates: it does not delete the Secrets of deleted
 * Certificates.
 */
const CERT_MANAGER_CA = "switchback-cert-manager-ca";
const POLL_MS = 500;

/**
 * Deletes the objects that were created at run time, and are in no chart and no manifest: front Services, the map,
 * the extras' ConfigMaps, Secrets and the election's Lease. First stops the controller, which would recreate them.
 * Throws `still-held` if one still runs after `timeoutMs`.
 */
export async function removeLeftovers(options: UninstallOptions): Promise<void> {
  const { client, namespace, say, now, timeoutMs, parts = [] } = options;
  for (const name of CONTROLLERS) {
    const scale = `${workloadPath(namespace, "Deployment", name)}/scale`;
    if (await ifFound(client.mergePatch(scale, { spec: { replicas: 0 } }))) say(`${name} has no replicas now`);
  }
  const look = async () => {
    const { items } = await client.list<Named>(corePath("pods", namespace), {
      labelSelector: CONTROLLER_PODS,
      fieldSelector: NOT_ENDED,
    });
    return { missing: items.map(({ metadata }) => metadata.name).join(", ") || undefined };
  };
  const running = await waitForRestart(look, { now, pollMs: POLL_MS, timeoutMs, report() {} });
  if (running !== undefined) {
    throw new SwitchbackError("still-held", `a controller still runs, and would recreate what is deleted: ${running}`);
  }
  const accept = { accept: METADATA_LIST };
  const fronts = await client.list<Named>(corePath("services", namespace), { labelSelector: TARGET_KEY }, accept);
  const added = await Promise.all(parts.map(async ({ configMaps }) => (await configMaps?.(client, namespace)) ?? []));
  const lease = { group: "coordination.k8s.io", version: "v1", resource: "leases", namespace };
  const paths = [
    ...fronts.items.map(({ metadata }) => corePath("services", namespace, metadata.name)),
    ...[...added.flat(), MAP_NAME, TARGETS_NAME].map((name) => corePath("configmaps", namespace, name)),
    ...[CA_SECRET, TLS_SECRET, CERT_MANAGER_CA, STATUS_SECRET].map((name) => corePath("secrets", namespace, name)),
    resourcePath({ ...lease, name: "switchback-controller" }),
  ];
  for (const path of paths) {
    try {
      await client.delete(path);
      say(`deleted ${path.split("/").slice(-2).join("/")}`);
    } catch (error) {
      if (statusOf(error) !== 404) throw error;
    }
  }
}
