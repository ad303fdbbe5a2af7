import { namespace, service } from "../cluster/addons/objects.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { withCluster } from "../cluster/whole.ts";
import { clusterTarget } from "./cluster-target.ts";
import { programCommand, programDeployment, RESOLVE } from "./programs/run.ts";
import { ingress, NAME, SHOP } from "./shop.ts";
import { installSwitchback, publishedMap } from "./switchback.ts";

// A replacement for an ingress controller behind a load balancer, for another cluster than this machine's own.

/**
 * The cluster with the shop open and Switchback installed. Earlier files have prepared this machine's own cluster;
 * another cluster is prepared here.
 */
export async function prepared(): Promise<Cluster> {
  const { other } = clusterTarget();
  if (other === undefined) return await withCluster();
  await openStandIn(other);
  await installSwitchback(other);
  await other.until("the name is published", 60, async () => (await publishedMap(other)).includes(NAME) || undefined);
  return other;
}

/** Creates an Ingress whose backend is a program that accepts PROXY headers, and a pod that does not opt in. */
export async function openStandIn(cluster: Cluster): Promise<void> {
  const listening = { ports: { http: 8080 }, readinessProbe: { tcpSocket: { port: "http" } } };
  await cluster.apply(
    namespace(SHOP),
    programDeployment(SHOP, "app", programCommand("strict"), listening),
    service(SHOP, "app", { app: "app", ports: [{ name: "http", port: 80, targetPort: "http" }] }),
    ingress("app", NAME, clusterTarget().className),
    programDeployment(SHOP, "client", programCommand("client", "sleep")),
  );
  await cluster.rolledOut(SHOP, "deployment/app", "deployment/client");
}

/** The result of resolving NAME in a pod that never opted in: its address, or why it has none. */
export async function resolvedPlainly(cluster: Cluster): Promise<string> {
  const isOwn = clusterTarget().other === undefined;
  const command = isOwn ? ["/client", RESOLVE, NAME] : programCommand("client", RESOLVE, NAME);
  return (await cluster.exec(`${SHOP}/deployment/client`, ...command)).stdout.trim();
}
