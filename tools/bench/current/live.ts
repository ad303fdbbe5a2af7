import { deployment } from "#test/cluster/addons/objects.ts";
import type { Cluster } from "#test/cluster/cluster.ts";
import { IMAGES } from "#test/cluster/images.ts";
import { ADMIN_KUBECONFIG, statePath } from "#test/cluster/node/layout.ts";
import { runIn } from "#test/cluster/node/run.ts";
import { AGENTS, withAgent } from "#test/e2e/switchback.ts";
import { percentile, progress, type Reporter } from "../report.ts";
import { onCluster } from "./cluster.ts";

const NAMESPACE = "bench-live";
/** No change should wait for the rate limit of publications, two per second. */
const PAUSE_MS = 700;

/**
 * On this machine's cluster: time from an Ingress's creation until its name is in the hosts file of a running pod.
 * The containers see the same file, because the kubelet bind-mounts it. One process beside the node creates the
 * Ingress and reads the file.
 */
export async function measureLive(changes: number, report: Reporter): Promise<void> {
  await onCluster(NAMESPACE, withAgent(), async (cluster) => {
    await cluster.rolledOut(AGENTS, "daemonset/switchback-agent");
    const uid = await runClient(cluster);
    progress(`${changes} Ingresses, one after the other`);
    const file = statePath("kubelet", "pods", uid, "etc-hosts");
    const script = new URL("live-changes.ts", import.meta.url).pathname;
    const args = [script, ADMIN_KUBECONFIG, NAMESPACE, file, String(changes), String(PAUSE_MS)];
    const delays = JSON.parse(await runIn("node", process.execPath, ...args)) as number[];
    const last = `live-${changes - 1}.example.com`;
    const { stdout } = await cluster.exec(`${NAMESPACE}/deployment/client`, "/client", "resolve", last);
    if (!stdout.includes("198.51.100.")) throw new Error(`${last} does not resolve in the pod: ${stdout}`);
    report.section({ changes });
    for (const [share, goal] of [[0.5], [0.99, 1_000], [1]] as const) {
      const figure = { name: `ingress-to-running-pod-p${share * 100}`, value: percentile(delays, share), unit: "ms" };
      report.figure({ ...figure, goal });
    }
  });
}

/** Creates a pod with live updates; returns its uid. */
async function runClient(cluster: Cluster): Promise<string> {
  await cluster.kubectl("annotate", "namespace", NAMESPACE, "switchback.dev/on-change=live");
  await cluster.apply(deployment({ namespace: NAMESPACE, name: "client", image: IMAGES.goClient, args: ["sleep"] }));
  await cluster.rolledOut(NAMESPACE, "deployment/client");
  return await cluster.kubectl("-n", NAMESPACE, "get", "pods", "-o", "jsonpath={.items[0].metadata.uid}");
}
