import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { LineLog } from "../test/fakes/clock.ts";
import { MemoryKube } from "../test/fakes/memory-kube.ts";
import { settled } from "../test/fakes/stopped-time.ts";
import { namespaceFacts, watchNamespaces } from "./namespaces.ts";

const INJECT = "switchback.dev/inject";
const ON_CHANGE = "switchback.dev/on-change";
const SHOP = "/api/v1/namespaces/shop";

function rig(t: TestContext) {
  const kube = new MemoryKube();
  const heard = { changes: 0 };
  const open = () => {
    const onChange = () => void heard.changes++;
    const informer = watchNamespaces({ client: kube.client, log: new LineLog(), onChange });
    t.after(() => informer.stop());
    return informer;
  };
  return { kube, heard, open };
}

test("a Namespace's label and annotation are kept, nothing else", () => {
  const metadata = { name: "shop", labels: { [INJECT]: "yes", a: "b" }, annotations: { [ON_CHANGE]: "live", c: "d" } };
  assert.deepEqual(namespaceFacts({ metadata }), { inject: "yes", onChange: "live" });
  assert.deepEqual(namespaceFacts({ metadata: { labels: { [INJECT]: "yes" } } }), {
    inject: "yes",
    onChange: undefined,
  });
});

test("namespaces that say nothing share one object", () => {
  const silent = namespaceFacts({ metadata: { name: "a", labels: { a: "b" } } });
  assert.deepEqual(silent, { inject: undefined, onChange: undefined });
  assert.equal(namespaceFacts({}), silent);
});

test("the first list is one change, however many Namespaces it has", async (t) => {
  const { kube, heard, open } = rig(t);
  for (const name of ["a", "b", "c"])
    kube.put(`/api/v1/namespaces/${name}`, { metadata: { labels: { [INJECT]: "x" } } });
  const informer = open();
  await settled();
  assert.deepEqual([[...informer.objects().keys()], heard.changes], [["a", "b", "c"], 1]);
});

for (const [what, before, after, changes] of [
  ["a new label value", { labels: { [INJECT]: "enabled" } }, { labels: { [INJECT]: "disabled" } }, 1],
  ["a new annotation", {}, { annotations: { [ON_CHANGE]: "live" } }, 1],
  ["another label", { labels: { [INJECT]: "enabled" } }, { labels: { [INJECT]: "enabled", a: "b" } }, 0],
  ["nothing of its own", undefined, {}, 0],
  ["the label from the start", undefined, { labels: { [INJECT]: "enabled" } }, 1],
] as const) {
  test(`${what} is ${changes === 0 ? "no" : "a"} change`, async (t) => {
    const { kube, heard, open } = rig(t);
    if (before !== undefined) kube.put(SHOP, { metadata: before });
    open();
    await settled();
    const known = heard.changes;
    kube.put(SHOP, { metadata: after });
    await settled();
    assert.equal(heard.changes - known, changes);
  });
}

test("a deletion is a change where the Namespace said something", async (t) => {
  const { kube, heard, open } = rig(t);
  kube.put(SHOP, { metadata: { labels: { [INJECT]: "enabled" } } });
  kube.put("/api/v1/namespaces/other", {});
  open();
  await settled();
  const known = heard.changes;
  kube.remove("/api/v1/namespaces/other");
  await settled();
  assert.equal(heard.changes, known);
  kube.remove(SHOP);
  await settled();
  assert.equal(heard.changes, known + 1);
});
