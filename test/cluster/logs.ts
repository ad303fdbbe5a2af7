import { cp, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Cluster } from "./cluster.ts";
import { LOGS } from "./node/layout.ts";

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
  "warnings.txt": [
    ...["get", "events", "-A", "--field-selector=type!=Normal", "-o"],
    "custom-columns=OF:.involvedObject.name,SAYS:.message",
  ],
  "orders.txt": [
    ...["get", "certificates,certificaterequests,orders,challenges", "-A", "-o"],
    "custom-columns=KIND:.kind,NAME:.metadata.name,STATE:.status.state,CONDITIONS:.status.conditions[*].message," +
      "REASON:.status.reason,FAILED:.status.lastFailureTime",
  ],
  "cert-manager.yaml": ["get", "certificates,certificaterequests,orders,challenges,issuers", "-A", "-o", "yaml"],
};

/** The files that most often explain a failed test. */
const SUMMARY = ["pods.txt", "warnings.txt", "orders.txt", "status.txt"] as const;

/**
 * Collects the logs of every component and pod, and what the API server says about the objects, in a new folder that
 * outlives the cluster. If something is not available, its file has the error message. `summary` has the texts of a
 * few files, for a run whose machine nobody can examine afterwards.
 */
export async function collectLogs(cluster: Cluster): Promise<{ readonly folder: string; readonly summary: string }> {
  const folder = await mkdtemp(join(tmpdir(), "switchback-e2e-logs-"));
  const texts = new Map<string, string>();
  for (const [name, args] of Object.entries(QUERIES)) {
    const { stdout, stderr } = await cluster.tool("kubectl", args);
    texts.set(name, stdout + stderr);
  }
  const { stdout, stderr } = await cluster.switchback("status", "--switchback-namespace", "switchback-system");
  texts.set("status.txt", stdout + stderr);
  for (const [name, text] of texts) await writeFile(join(folder, name), text);
  await cp(LOGS, join(folder, "logs"), { recursive: true });
  return { folder, summary: SUMMARY.map((name) => `--- ${name}\n${texts.get(name)}`).join("\n") };
}
