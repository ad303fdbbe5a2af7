import { existsSync } from "node:fs";
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
  "cert-manager.yaml": ["get", "certificates,certificaterequests,orders,challenges,issuers", "-A", "-o", "yaml"],
};

/**
 * The logs of every component and pod, and what the API server says of the objects at hand, in a new folder that outlives the
 * cluster. What cannot be had says so in its place. @returns the folder.
 */
export async function collectLogs(cluster: Cluster, { components = LOGS } = {}): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "switchback-e2e-logs-"));
  if (existsSync(components)) await cp(components, join(folder, "logs"), { recursive: true });
  for (const [name, args] of Object.entries(QUERIES)) {
    const { stdout, stderr } = await cluster.tool("kubectl", args);
    await writeFile(join(folder, name), stdout + stderr);
  }
  return folder;
}
