import { cp, mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Cluster } from "./cluster.ts";

const QUERIES: Record<string, string[]> = {
  "pods.txt": ["get", "pods", "-A", "-o", "wide"],
  "pods-described.txt": ["describe", "pods", "-A"],
  "events.txt": ["get", "events", "-A", "--sort-by=.metadata.creationTimestamp"],
  "services.yaml": ["get", "services,endpointslices,ingresses", "-A", "-o", "yaml"],
  "configmaps.yaml": ["get", "configmaps", "-A", "-o", "yaml"],
  "webhooks.yaml": ["get", "mutatingwebhookconfigurations", "-o", "yaml"],
  "switchback.txt": [
    ...["-n", "switchback-system", "logs", "-l", "app.kubernetes.io/name=switchback"],
    ...["--all-containers", "--prefix", "--tail=-1", "--max-log-requests=50"],
  ],
  "cert-manager.yaml": ["get", "certificates,certificaterequests,orders,challenges,issuers", "-A", "-o", "yaml"],
};

/** Limit for one log. A user's cluster may have any number of containers. */
const LIMIT = "--limit-bytes=20000000";

/**
 * Collects the logs of every component and pod, and what the API server says about the objects, in a new folder that
 * outlives the cluster. `components` is the log folder of a node of this machine. For another cluster, the API server
 * returns the logs of its pods, including containers that have ended. If something is not available, its file has the
 * error message. @returns the folder.
 */
export async function collectLogs(cluster: Cluster, components?: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "switchback-e2e-logs-"));
  const keep = async (name: string, args: string[]) => {
    const { stdout, stderr } = await cluster.tool("kubectl", args);
    await writeFile(join(folder, name), stdout + stderr);
  };
  for (const [name, args] of Object.entries(QUERIES)) await keep(name, args);
  const logs = join(folder, "logs");
  if (components !== undefined) await cp(components, logs, { recursive: true });
  else {
    await mkdir(logs);
    for (const [namespace = "", pod = "", ...restarts] of await pods(cluster)) {
      const args = ["-n", namespace, "logs", pod, "--all-containers", "--prefix", "--tail=-1", LIMIT];
      await keep(join("logs", `${namespace}_${pod}.log`), args);
      if (restarts.some((count) => count !== "0"))
        await keep(join("logs", `${namespace}_${pod}.previous.log`), [...args, "--previous"]);
    }
  }
  return folder;
}

const SUMMARY: readonly string[][] = [
  ["get", "pods", "-A", "-o", "wide"],
  [
    ...["get", "certificates,certificaterequests,orders,challenges", "-A", "-o"],
    "custom-columns=KIND:.kind,NAME:.metadata.name,STATE:.status.state,CONDITIONS:.status.conditions[*].message," +
      "REASON:.status.reason,FAILED:.status.lastFailureTime",
  ],
  [
    "get",
    "events",
    "-A",
    "--field-selector=type!=Normal",
    "-o",
    "custom-columns=OF:.involvedObject.name,SAYS:.message",
  ],
  ["-n", "cert-manager", "logs", "deployment/cert-manager", "--tail=25"],
];

/** The queries that most often explain a failed test, for a run whose machine nobody can examine afterwards. */
export async function summaryOf(cluster: Cluster): Promise<string> {
  const parts: string[] = [];
  for (const args of SUMMARY) {
    const { stdout, stderr } = await cluster.tool("kubectl", args);
    parts.push(`--- kubectl ${args.join(" ")}\n${stdout}${stderr}`);
  }
  const { stdout, stderr } = await cluster.switchback("status", "--namespace", "switchback-system");
  return `${parts.join("")}--- switchback status\n${stdout}${stderr}`;
}

/** Namespace and name of each pod, and how often each of its containers has restarted. */
async function pods(cluster: Cluster): Promise<string[][]> {
  const statuses = ["initContainerStatuses", "containerStatuses"].map((name) => `{.status.${name}[*].restartCount}`);
  const jsonpath = `{range .items[*]}{.metadata.namespace} {.metadata.name} ${statuses.join(" ")}{"\\n"}{end}`;
  const text = await cluster.kubectl("get", "pods", "-A", "-o", `jsonpath=${jsonpath}`).catch(() => "");
  const lines = text.split("\n").filter((line) => line !== "");
  return lines.map((line) => line.trim().split(/ +/));
}
