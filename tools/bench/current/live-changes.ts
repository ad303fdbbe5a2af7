import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { connect } from "#lib/kube/connect.ts";
import { resourcePath } from "#lib/kube/paths.ts";

// A separate process in the node's network: `live-changes.ts KUBECONFIG NAMESPACE FILE COUNT PAUSE_MS`. Prints the
// time from each Ingress's creation until the file has its name, in milliseconds, as a JSON array.

const [kubeconfig = "", namespace = "", file = "", count = "0", pauseMs = "0"] = process.argv.slice(2);
const DEADLINE_MS = 30_000;

const client = await connect({ kubeconfig });
const path = resourcePath({ group: "networking.k8s.io", version: "v1", resource: "ingresses", namespace });
// Opens the connection, so that the first change does not include it.
await client.get(path);
const delays: number[] = [];
for (let change = 0; change < Number(count); change += 1) {
  const host = `live-${change}.example.com`;
  const spec = { ingressClassName: "nginx", rules: [{ host }] };
  const at = performance.now();
  await client.create(path, {
    apiVersion: "networking.k8s.io/v1",
    kind: "Ingress",
    metadata: { name: `live-${change}`, namespace },
    spec,
  });
  while (!readFileSync(file, "latin1").includes(`${host}\t`)) {
    if (performance.now() - at > DEADLINE_MS) throw new Error(`${host} is not in ${file}`);
    await delay(2);
  }
  delays.push(performance.now() - at);
  await delay(Number(pauseMs) * (0.8 + 0.4 * Math.random()));
}
client.close();
process.stdout.write(JSON.stringify(delays));
