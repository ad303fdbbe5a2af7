import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { type ConnectedClient, connect } from "#lib/kube/connect.ts";
import { corePath } from "#lib/kube/paths.ts";
import type { TableObject } from "#lib/kube/table.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import { type ControlPlane, startControlPlane } from "../cluster/controlplane.ts";
import { until } from "../fakes/kube-api.ts";
import { type Watching, watching } from "../fakes/watching.ts";

let cluster: ControlPlane;
let admin: ConnectedClient;
const watches: Watching[] = [];

before(async () => {
  cluster = await startControlPlane();
  admin = await connect({ kubeconfig: cluster.adminKubeconfig });
});
after(async () => {
  await Promise.all(watches.map(({ watcher }) => watcher.stop()));
  admin?.close();
  await cluster?.stop();
});

const PODS = corePath("pods", "default");
const podNamed = (name: string) => ({
  metadata: { name, annotations: { "example.com/note": name } },
  spec: { containers: [{ name: "c", image: "example.com/c:1" }] },
});

/** The parts of an object that the API server has sent. */
function parts(object: ApiObject): string {
  const sent = Object.keys(object).filter((key) => ["metadata", "spec", "status"].includes(key));
  return `${object.metadata?.name}: ${sent.join("+")}, ${object.metadata?.annotations?.["example.com/note"]}`;
}

/** The columns that were sent beside an object's metadata. */
function columnsOf(object: ApiObject): string {
  const { columns } = object as TableObject;
  return `${parts(object)}, ${JSON.stringify(columns)}`;
}

function watchPods(options: Parameters<typeof watching>[1]): Watching {
  const watch = watching(admin, { path: PODS, metadataOnly: true, project: parts, ...options });
  watches.push(watch);
  return watch;
}

describe("a watch of metadata only", () => {
  it("gets no spec and no status, in the list and in each event", async () => {
    await admin.create(PODS, podNamed("listed"));
    const watch = watchPods({});
    await until(() => watch.synced === 1, "the list");
    await admin.create(PODS, podNamed("watched"));
    await until(() => watch.watcher.objects().size === 2, "the event");
    const sent = [...watch.watcher.objects().values()].sort();
    assert.deepEqual(sent, ["listed: metadata, listed", "watched: metadata, watched"]);
  });

  it("still selects by fields that are not sent: a pod that has ended leaves", async () => {
    await admin.create(PODS, podNamed("job"));
    const running = "status.phase!=Succeeded,status.phase!=Failed";
    const watch = watchPods({ fieldSelector: `metadata.name=job,${running}` });
    await until(() => watch.watcher.objects().size === 1, "the pod");
    const status = { status: { phase: "Succeeded" } };
    await admin.mergePatch(`${PODS}/job/status`, status, { fieldManager: "test" });
    await until(() => watch.watcher.objects().size === 0, "the ended pod to leave");
  });
});

describe("a watch of metadata and columns", () => {
  const table = {
    columns: ["Node"],
    project: columnsOf,
    labelSelector: "table",
    fieldSelector: "status.phase!=Failed",
  };
  const labelled = (name: string, nodeName?: string) => {
    const { metadata, spec } = podNamed(name);
    return { metadata: { ...metadata, labels: { table: "yes" } }, spec: { ...spec, nodeName } };
  };
  const pods = ({ watcher }: Watching) => [...watcher.objects().values()].sort();

  it("gets a pod's node in the list, page by page, and when the pod is bound", async () => {
    await admin.create(PODS, labelled("bound", "node-1"));
    await admin.create(PODS, labelled("free"));
    const watch = watchPods({ ...table, pageSize: 1 });
    await until(() => watch.synced === 1, "the list");
    assert.deepEqual(pods(watch), ['bound: metadata, bound, {"Node":"node-1"}', "free: metadata, free, {}"]);
    const binding = { metadata: { name: "free" }, target: { kind: "Node", name: "node-2" } };
    await admin.create(`${PODS}/free/binding`, { apiVersion: "v1", kind: "Binding", ...binding });
    await until(() => pods(watch)[1] === 'free: metadata, free, {"Node":"node-2"}', "the binding");
    await admin.mergePatch(`${PODS}/bound/status`, { status: { phase: "Failed" } }, { fieldManager: "test" });
    await until(() => watch.watcher.objects().size === 1, "the ended pod to leave");
  });

  it("gets a deletion when a label no longer matches, and an addition when it matches again", async () => {
    await admin.create(PODS, labelled("moving", "node-1"));
    const watch = watchPods({ ...table, fieldSelector: "metadata.name=moving" });
    await until(() => watch.watcher.objects().size === 1, "the pod");
    await admin.mergePatch(`${PODS}/moving`, { metadata: { labels: { table: null } } });
    await until(() => watch.watcher.objects().size === 0, "the pod to leave");
    await admin.mergePatch(`${PODS}/moving`, { metadata: { labels: { table: "yes" } } });
    await until(() => pods(watch)[0] === 'moving: metadata, moving, {"Node":"node-1"}', "the pod to return");
  });
});
