import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { type ConnectedClient, connect } from "#lib/kube/connect.ts";
import { corePath, resourcePath } from "#lib/kube/paths.ts";
import { type ControlPlane, startControlPlane } from "../cluster/controlplane.ts";
import { until } from "../fakes/kube-api.ts";
import { startTcpProxy, type TcpProxy } from "../fakes/tcp-proxy.ts";
import { type Watching, watching } from "../fakes/watching.ts";

// Faults on the connection of a watch to a real API server, and in the API server's memory. In each case the watch
// keeps what it knows until it learns better, and in the end it knows what exists.

const NAMESPACE = "faults";
const collection = resourcePath({
  group: "networking.k8s.io",
  version: "v1",
  resource: "ingresses",
  namespace: NAMESPACE,
});

let cluster: ControlPlane;
let admin: ConnectedClient;
let proxy: TcpProxy;
let client: ConnectedClient;
const watches: Watching[] = [];
before(async () => {
  cluster = await startControlPlane({ controllerManager: false });
  admin = await connect({ kubeconfig: cluster.adminKubeconfig });
  await admin.create(corePath("namespaces"), { metadata: { name: NAMESPACE } });
  proxy = await startTcpProxy(Number(new URL(cluster.url).port));
  const kubeconfig = await cluster.kubeconfigFor({ token: cluster.adminToken }, `https://127.0.0.1:${proxy.port}`);
  client = await connect({ kubeconfig });
});
after(async () => {
  await Promise.all(watches.map(({ watcher }) => watcher.stop()));
  client?.close();
  admin?.close();
  await proxy?.close();
  await cluster?.stop();
});

const create = (name: string) =>
  admin.create(collection, {
    metadata: { name },
    spec: { defaultBackend: { service: { name, port: { number: 80 } } } },
  });
const remove = (name: string) => admin.delete(`${collection}/${name}`);

/** Watches through the proxy. The result also gives the known names. */
async function follow(timings: Parameters<typeof watching>[1] = {}): Promise<Watching & { names(): string }> {
  const seen = watching(client, { path: collection, ...timings });
  watches.push(seen);
  await until(() => seen.watcher.state.following, "the watch", 60_000);
  const names = () =>
    [...seen.watcher.objects().keys()]
      .map((key) => key.split("/")[1])
      .sort()
      .join();
  return Object.assign(seen, { names });
}

/** Leaves nothing for the next test. */
async function clear(seen: Watching): Promise<void> {
  await seen.watcher.stop();
  // Connections that are kept alive for later calls may be frozen, too.
  proxy.cut();
  const { items } = await admin.list<{ metadata: { name: string } }>(collection);
  for (const { metadata } of items) await remove(metadata.name);
}

describe("a watch", () => {
  it("that is cut repeatedly misses nothing, and reports nothing twice", async () => {
    const seen = await follow();
    for (const name of ["a", "b", "c", "d"]) {
      proxy.cut();
      await create(name);
      if (name === "b") await remove("a");
    }
    await until(() => seen.names() === "b,c,d", `b, c and d, not ${seen.names()}`);
    const told = seen.changes.map((change) => change.split("@")[0]);
    assert.equal(new Set(told).size, told.length, told.join());
    await clear(seen);
  });

  it("whose connection transfers nothing any more is reopened, and keeps its objects until then", async () => {
    const seen = await follow({ timings: { idleMs: 1_500 } });
    await create("before");
    await until(() => seen.names() === "before", "the first object");
    proxy.freeze();
    await create("during");
    assert.equal(seen.names(), "before");
    await until(() => seen.names() === "before,during", "what came meanwhile");
    await clear(seen);
  });

  it("whose version a restarted API server does not have (410) lists again, and misses nothing", async () => {
    const seen = await follow({ timings: { idleMs: 120_000 } });
    await create("gone");
    await until(() => seen.names() === "gone", "the first object");
    proxy.freeze();
    await create("stays");
    await remove("gone");
    await cluster.restartApiServer("SIGKILL");
    assert.equal(seen.names(), "gone");
    proxy.cut();
    await until(() => seen.names() === "stays", `what is there now, not ${seen.names()}`, 60_000);
    await clear(seen);
  });
});
