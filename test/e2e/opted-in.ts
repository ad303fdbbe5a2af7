import type { Cluster } from "../cluster/cluster.ts";
import { programCommand, programDeployment } from "./programs/run.ts";
import type { Answer } from "./shop.ts";

/** A namespace in which every new pod is injected. */
export const OPTED_IN = "opted-in";
const CLIENT = "client";

/**
 * Creates the namespace with one pod that calls public names. The pod is new, so that it has the current names, or
 * the names of an annotation.
 */
export async function optIn(cluster: Cluster, annotations: Record<string, string> = {}): Promise<void> {
  const labels = { "switchback.dev/inject": "enabled" };
  await cluster.apply({ apiVersion: "v1", kind: "Namespace", metadata: { name: OPTED_IN, labels } });
  const client = programDeployment(OPTED_IN, CLIENT, programCommand("sleep"), { annotations });
  await cluster.delete(client);
  await cluster.apply(client);
  await cluster.rolledOut(OPTED_IN, `deployment/${CLIENT}`);
}

/** Runs a command of programs/client.ts in the opted-in pod. Returns its output. */
export async function inClient(cluster: Cluster, ...args: string[]): Promise<string> {
  const command = programCommand(...args);
  return (await cluster.exec(`${OPTED_IN}/deployment/${CLIENT}`, ...command)).stdout.trim();
}

/** GET from the opted-in pod. `family`: 4 or 6; with 0, the pod chooses. */
export async function getMapped(cluster: Cluster, url: string, family = 0): Promise<Answer> {
  return JSON.parse(await inClient(cluster, "get", url, `${family}`)) as Answer;
}

/** The addresses of the opted-in pod, one for each family of the cluster. */
export async function clientAddresses(cluster: Cluster): Promise<string[]> {
  const pods = ["-n", OPTED_IN, "get", "pods", "-l", `app=${CLIENT}`, "--field-selector=status.phase=Running"];
  return (await cluster.kubectl(...pods, "-o", "jsonpath={.items[0].status.podIPs[*].ip}")).split(" ");
}
