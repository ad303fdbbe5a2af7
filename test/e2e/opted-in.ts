import type { Cluster } from "../cluster/cluster.ts";
import { programCommand, programDeployment } from "./programs/run.ts";
import type { Answer } from "./shop.ts";

/** A namespace of which every new pod is injected. */
export const OPTED_IN = "opted-in";
const CLIENT = "client";

/**
 * The namespace with one pod that calls public names. Its pod is new, so that it has the current names, or those of
 * an annotation.
 */
export async function optIn(cluster: Cluster, annotations: Record<string, string> = {}): Promise<void> {
  const labels = { "switchback.dev/inject": "enabled" };
  await cluster.apply({ apiVersion: "v1", kind: "Namespace", metadata: { name: OPTED_IN, labels } });
  const client = programDeployment(OPTED_IN, CLIENT, programCommand("client", "sleep"), { annotations });
  await cluster.delete(client);
  await cluster.apply(client);
  await cluster.rolledOut(OPTED_IN, `deployment/${CLIENT}`);
}

/** A command of programs/client.ts in that pod; its output. */
export async function inClient(cluster: Cluster, ...args: string[]): Promise<string> {
  const command = programCommand("client", ...args);
  return (await cluster.exec(`${OPTED_IN}/deployment/${CLIENT}`, ...command)).stdout.trim();
}

/** `family`: 4 or 6; 0 is the pod's choice. */
export async function getMapped(cluster: Cluster, url: string, family = 0): Promise<Answer> {
  return JSON.parse(await inClient(cluster, "get", url, `${family}`)) as Answer;
}

/** The addresses of that pod, one of each family of the cluster. */
export async function clientAddresses(cluster: Cluster): Promise<string[]> {
  const pods = ["-n", OPTED_IN, "get", "pods", "-l", `app=${CLIENT}`, "--field-selector=status.phase=Running"];
  return (await cluster.kubectl(...pods, "-o", "jsonpath={.items[0].status.podIPs[*].ip}")).split(" ");
}
