import assert from "node:assert/strict";
import { parseAllDocuments } from "yaml";
import { RESTRICTED_CONTAINER, RESTRICTED_POD } from "../cluster/addons/objects.ts";
import type { Cluster, KubeObject } from "../cluster/cluster.ts";
import { clusterTarget } from "./cluster-target.ts";
import { imageName, programCommand } from "./programs/run.ts";
import { SYSTEM } from "./switchback.ts";

/** The place from which a test tries what it can reach: a pod, or an address of the internet. */
export type Place = { pod: string; address: string } | { outside: string };

/** Which of the addresses (`tcp:IP:PORT`, `dns:IP`: programs/client.ts) answer a client at this place. */
export async function reached(cluster: Cluster, place: Place, addresses: readonly string[]): Promise<string[]> {
  const [source, run] =
    "pod" in place
      ? ["any", (...command: string[]) => cluster.exec(place.pod, ...command)]
      : [place.outside, (_: string, ...args: string[]) => cluster.outside(process.execPath, ...args)];
  const [node = "", ...args] = programCommand("client", "reach", source, ...addresses);
  const { stdout, stderr } = await run(node, ...args);
  assert.match(stdout, /^\[/, stderr);
  return JSON.parse(stdout) as string[];
}

interface RawPods {
  items: { metadata: { name: string; deletionTimestamp?: string }; status: { podIP?: string } }[];
}

/** One of the pods that a selector matches, without those that are being deleted. */
export async function podPlace(
  cluster: Cluster,
  namespace: string,
  selector: string,
): Promise<Extract<Place, { pod: string }>> {
  const { items } = await cluster.get<RawPods>("-n", namespace, "pods", "-l", selector);
  const pod = items.find(({ metadata }) => metadata.deletionTimestamp === undefined);
  assert.ok(pod?.status.podIP, `${namespace}: no pod has ${selector}`);
  return { pod: `${namespace}/${pod.metadata.name}`, address: pod.status.podIP };
}

const LISTENING = "0A";

/** The TCP ports at which other machines can reach a pod, from the kernel's list. */
export async function listeningPorts(cluster: Cluster, pod: string): Promise<number[]> {
  const program = `for (const file of ["tcp", "tcp6"]) console.log(fs.readFileSync("/proc/net/" + file, "utf8"))`;
  const { stdout, stderr } = await cluster.exec(pod, "node", "-e", program);
  const sockets = stdout.split("\n").map((line) => line.trim().split(/\s+/));
  const own = sockets.filter(([, , , state]) => state === LISTENING).map(([, local = ""]) => local.split(":"));
  const ports = own.filter(([address]) => address !== "0100007F").map(([, port = ""]) => Number.parseInt(port, 16));
  assert.ok(ports.length > 0, stderr);
  return [...new Set(ports)].sort((a, b) => a - b);
}

/** The NetworkPolicies that exist only while `helm uninstall` runs, and a stand-in for the pod of each hook. */
export async function hookStandIns(cluster: Cluster): Promise<{ policies: KubeObject[]; pods: KubeObject[] }> {
  const hooks = await cluster.helm("get", "hooks", "switchback", "--namespace", SYSTEM);
  const objects = parseAllDocuments(hooks).map((document) => document.toJS() as KubeObject);
  const policies = objects.filter(({ kind }) => kind === "NetworkPolicy");
  const jobs = objects.filter(({ kind }) => kind === "Job") as (KubeObject & {
    spec: { template: { metadata: { labels: Record<string, string> } } };
  })[];
  const pods = jobs.map(({ metadata, spec }) => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { ...metadata, labels: spec.template.metadata.labels },
    spec: {
      terminationGracePeriodSeconds: 0,
      securityContext: RESTRICTED_POD,
      containers: [
        {
          name: "main",
          image: imageName(),
          imagePullPolicy: clusterTarget().image.pullPolicy,
          command: programCommand("strict"),
          securityContext: RESTRICTED_CONTAINER,
        },
      ],
    },
  }));
  return { policies, pods };
}
