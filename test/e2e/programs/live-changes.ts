import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { connect } from "#lib/kube/connect.ts";
import { resourcePath } from "#lib/kube/paths.ts";

// `live-changes.ts KUBECONFIG NAMESPACE FILE COUNT`, in the node's network: creates Ingresses one after the other.
// Prints the times, in milliseconds, until the file has the name of each, as a JSON array.

/** No change should wait for the rate limit of publications, two per second. */
const PAUSE_MS = 700;
const DEADLINE_MS = 30_000;

const [kubeconfig = "", namespace = "", file = "", count = "0"] = process.argv.slice(2);
const client = await connect({ kubeconfig });
const path = resourcePath({ group: "networking.k8s.io", version: "v1", resource: "ingresses", namespace });
// Opens the connection, so that the first time does not include it.
await client.get(path);
const times: number[] = [];
for (let change = 0; change < Number(count); change += 1) {
  const host = `change-${change}.example.com`;
  const metadata = { name: `change-${change}`, namespace, labels: { made: "changes" } };
  const spec = { ingressClassName: "nginx", rules: [{ host }] };
  const at = performance.now();
  await client.create(path, { apiVersion: "networking.k8s.io/v1", kind: "Ingress", metadata, spec });
  while (!readFileSync(file, "latin1").includes(`${host}\t`)) {
    if (performance.now() - at > DEADLINE_MS) throw new Error(`${host} is not in ${file}`);
    await delay(2);
  }
  times.push(performance.now() - at);
  await delay(PAUSE_MS * (0.8 + 0.4 * Math.random()));
}
client.close();
process.stdout.write(JSON.stringify(times));
