import assert from "node:assert/strict";
import { test } from "node:test";
import { runHere, useFiles } from "#test/fakes/cli.ts";
import { AGENT_LABELS, AGENT_PATH, addConfig } from "#test/fakes/installed.ts";
import { fakeApi } from "#test/fakes/kube-api.ts";
import { MemoryServer } from "#test/fakes/memory-server.ts";

const DAEMON_SETS = AGENT_PATH.slice(0, AGENT_PATH.lastIndexOf("/"));
const IMAGE = "switchback:0.1.1";
const files = useFiles();

/** The components that `switchback version` shows. */
async function componentsOf(server: MemoryServer) {
  const api = await fakeApi(server.respond);
  try {
    const args = ["version", "-n", "ours", "-o", "json"];
    const { stdout } = await runHere(args, { KUBECONFIG: await files.kubeconfig(api.url) });
    return JSON.parse(stdout).components;
  } finally {
    await api.close();
  }
}

function installed(config: string, daemonSets?: string): MemoryServer {
  const server = new MemoryServer();
  const labels = { "app.kubernetes.io/name": "switchback", "app.kubernetes.io/component": "controller" };
  server.add("/apis/apps/v1/namespaces/ours/deployments", "switchback-controller", { metadata: { labels } });
  addConfig(server, { "config.yaml": config });
  if (daemonSets === undefined) return server;
  server.add(daemonSets, "switchback-agent", {
    metadata: { labels: AGENT_LABELS },
    spec: { template: { spec: { containers: [{ image: IMAGE }] } } },
    status: { desiredNumberScheduled: 5, numberReady: 4 },
  });
  return server;
}

for (const [where, namespace, config] of [
  ["their own namespace", "nodes", "agent: { namespace: nodes }"],
  ["the default namespace", "switchback-agent", ""],
] as const) {
  test(`version finds the agents in ${where}`, async () => {
    const path = DAEMON_SETS.replace("switchback-agent", namespace);
    assert.deepEqual((await componentsOf(installed(config, path))).slice(1), [
      {
        component: "agent",
        kind: "DaemonSet",
        namespace,
        name: "switchback-agent",
        version: "0.1.1",
        image: IMAGE,
        ready: 4,
        desired: 5,
      },
    ]);
  });
}

test("version shows no agents if there are none", async () => {
  assert.equal((await componentsOf(installed(""))).length, 1);
});
