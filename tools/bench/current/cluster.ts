import type { Cluster } from "#test/cluster/cluster.ts";
import { importImages } from "#test/cluster/node/up.ts";
import { withProductImage } from "#test/cluster/product-image.ts";
import { progressLines } from "#test/cluster/progress.ts";
import { wholeCluster } from "#test/cluster/whole.ts";
import { installSwitchback, removeSwitchback } from "#test/e2e/switchback.ts";

/**
 * Calls `measure` on this machine's cluster, with Switchback installed with `values` and an opted-in namespace.
 * Removes both afterwards.
 */
export async function onCluster(
  namespace: string,
  values: Parameters<typeof installSwitchback>[1],
  measure: (cluster: Cluster) => Promise<void>,
): Promise<void> {
  const steps = progressLines();
  const { cluster } = await wholeCluster(steps);
  await withProductImage((image) => importImages([image], steps));
  try {
    // The namespace comes first: the chart creates Roles in the namespaces that allow restarts.
    const metadata = { name: namespace, labels: { "switchback.dev/inject": "enabled" } };
    await cluster.apply({ apiVersion: "v1", kind: "Namespace", metadata });
    await installSwitchback(cluster, values);
    await measure(cluster);
  } finally {
    await cluster.kubectl("delete", "namespace", namespace, "--ignore-not-found", "--timeout=120s");
    await removeSwitchback(cluster);
  }
}
