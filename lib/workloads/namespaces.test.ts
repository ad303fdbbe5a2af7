import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { LineLog } from "#test/fakes/clock.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { settled } from "#test/fakes/stopped-time.ts";
import { isOptedIn, namespaceFacts, watchNamespaces } from "./namespaces.ts";
import { podFacts } from "./pods.ts";

const INJECT = "switchback.dev/inject";
const ON_CHANGE = "switchback.dev/on-change";
const SHOP = "/api/v1/namespaces/shop";

function rig(t: TestContext) {
  const kube = new MemoryKube();
  const heard = { changes: 0, synced: 0, last: {} };
  const open = () => {
    const informer = watchNamespaces({
      client: kube.client,
      log: new LineLog(),
      onChange: (change) => {
        heard.changes++;
        heard.last = change;
      },
      onSynced: () => void heard.synced++,
    });
    t.after(() => informer.stop());
    return informer;
  };
  return { kube, heard, open };
}

test("only the label and the annotation of a Namespace are kept", () => {
  const metadata = { name: "shop", labels: { [INJECT]: "yes", a: "b" }, annotations: { [ON_CHANGE]: "live", c: "d" } };
  assert.deepEqual(namespaceFacts({ metadata }), { inject: "yes", onChange: "live" });
  assert.deepEqual(namespaceFacts({ metadata: { labels: { [INJECT]: "yes" } } }), {
    inject: "yes",
    onChange: undefined,
  });
});

test("namespaces without the label and the annotation share one object", () => {
  const silent = namespaceFacts({ metadata: { name: "a", labels: { a: "b" } } });
  assert.deepEqual(silent, { inject: undefined, onChange: undefined });
  assert.equal(namespaceFacts({}), silent);
});

test("each Namespace with the label or annotation is reported as a change, then the list as complete", async (t) => {
  const { kube, heard, open } = rig(t);
  for (const [name, labels] of Object.entries({ a: { [INJECT]: "x" }, b: {}, c: { [INJECT]: "y" } }))
    kube.put(`/api/v1/namespaces/${name}`, { metadata: { labels } });
  const informer = open();
  await settled();
  assert.deepEqual([...informer.objects().keys()], ["a", "b", "c"]);
  const after = { inject: "y", onChange: undefined };
  assert.deepEqual(heard, { changes: 2, synced: 1, last: { key: "c", after } });
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

test("the deletion of a Namespace is a change if it had the label or the annotation", async (t) => {
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

const RULES = { excluded: new Set(["kube-system"]), listed: new Set(["listed"]) };
const POD = podFacts({ metadata: { namespace: "shop" } });
const ENABLED = { inject: "enabled", onChange: undefined };

for (const [what, pod, namespace, expected] of [
  ["neither label", POD, { inject: undefined, onChange: "live" }, false],
  ["a namespace that is not known", POD, undefined, false],
  ["the namespace's label", POD, ENABLED, true],
  ["the pod's label", { ...POD, inject: "enabled" }, undefined, true],
  ["another value of the pod's label", { ...POD, inject: "true" }, undefined, false],
  ["another value of the pod's label, in a namespace with the label", { ...POD, inject: "true" }, ENABLED, true],
  [
    "the pod's label, in a namespace that opts out",
    { ...POD, inject: "enabled" },
    { ...ENABLED, inject: "disabled" },
    true,
  ],
  ["a mirror pod with the label", { ...POD, mirror: true, inject: "enabled" }, ENABLED, false],
  ["a pod that opts out", { ...POD, inject: "disabled" }, ENABLED, false],
  ["a listed namespace", { ...POD, namespace: "listed" }, undefined, true],
  ["a listed namespace that opts out", { ...POD, namespace: "listed" }, { ...ENABLED, inject: "disabled" }, false],
  ["a mirror pod", { ...POD, mirror: true }, ENABLED, false],
  ["an excluded namespace", { ...POD, namespace: "kube-system", inject: "enabled" }, ENABLED, false],
] as const) {
  test(`${what}: ${expected ? "opted in" : "not opted in"}`, () => {
    assert.equal(isOptedIn(pod, namespace, RULES), expected);
  });
}
