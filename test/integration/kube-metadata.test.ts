import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { type ConnectedClient, connect } from "#lib/kube/connect.ts";
import { corePath } from "#lib/kube/paths.ts";
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
