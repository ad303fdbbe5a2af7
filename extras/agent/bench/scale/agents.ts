import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { kubeMapReader } from "#lib/documents/map-reader.ts";
import type { connect } from "#lib/kube/connect.ts";
import type { silentLogger } from "#lib/telemetry/log.ts";
import { writeHostsFiles } from "#tools/bench/scale/nodes.ts";
import { nodeName } from "#tools/bench/scale/population.ts";
import type { AgentsOptions } from "#tools/bench/scale/processes.ts";
import { parseConfigOf, treeFile } from "#tools/bench/tree-file.ts";
import type { runAgent } from "../../run.ts";

// Runs the agents of many nodes in one process. Each agent has its own client, watches, Lease and hosts files. Only
// the separate processes are missing, so this process does not show the memory and CPU of a node.

const options: AgentsOptions = JSON.parse(readFileSync(process.argv[2] ?? "", "utf8"));
const load = async <T>(path: string, earlierPath: string): Promise<T> =>
  (await import(treeFile(options.tree, path, earlierPath))) as T;
const agent = await load<{ runAgent: typeof runAgent }>("extras/agent/run.ts", "agent/run.ts");
const kube = await load<{ connect: typeof connect }>("lib/kube/connect.ts", "kube/connect.ts");
const maps = await load<{ kubeMapReader: typeof kubeMapReader }>(
  "lib/documents/map-reader.ts",
  "snapshot/map-reader.ts",
);
const telemetry = await load<{ silentLogger: typeof silentLogger }>("lib/telemetry/log.ts", "telemetry/log.ts");

process.on("disconnect", () => process.exit());
const nodes = Array.from({ length: options.count }, (_, index) => options.first + index);
await Promise.all(nodes.map(async (node) => await untilReady(await startAgent(node))));
process.send?.({ started: options.count });

async function startAgent(node: number): Promise<number> {
  const kubeletRoot = join(options.folder, `node-${node}`);
  writeHostsFiles(options.population, node, kubeletRoot);
  const tokenFile = join(options.folder, `agent-${node}`);
  writeFileSync(tokenFile, `agent-${node}`);
  const { hostname: host, port } = new URL(options.url);
  const { caFile } = options;
  const client = await kube.connect({ inCluster: { host, port, tokenFile, caFile, namespaceFile: tokenFile } });
  const parsed = await parseConfigOf(options.tree, {
    agent: { node: nodeName(node), kubeletRoot, healthPort: 0, address: "127.0.0.1" },
  });
  const running = await agent.runAgent(parsed, {
    client,
    maps: maps.kubeMapReader({ client, namespace: parsed.namespace, log: telemetry.silentLogger }),
    log: telemetry.silentLogger,
    identity: `agent-${node}`,
    now: Date.now,
  });
  return running.healthPort;
}

async function untilReady(port: number): Promise<void> {
  const deadline = performance.now() + options.maxStartMs;
  while (performance.now() < deadline) {
    // With a hundred agents in this process, the connection may end before the answer arrives.
    const status = await fetch(`http://127.0.0.1:${port}/readyz`).then(
      async (response) => {
        await response.text();
        return response.status;
      },
      () => 0,
    );
    if (status === 200) return;
    await delay(100);
  }
  throw new Error("an agent is not ready");
}
