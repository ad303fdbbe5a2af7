import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { type TestContext, test } from "node:test";
import { Counts, sumOf } from "./counts.ts";
import { type Form, MadeUpObjects, nodeStep, type Selection, Versions } from "./objects.ts";
import { isOptedIn, madeUpKinds, nodeName, podAt } from "./population.ts";

const POPULATION = { pods: 95, nodes: 7, namespaces: 10, optedIn: 0.2, onChange: "restart" } as const;
const ALL: Selection = { namespace: undefined, labelSelector: undefined, fieldSelector: undefined };
const INJECTED = "switchback.dev/injected";

function objects(resource = "pods"): MadeUpObjects {
  const kind = madeUpKinds(POPULATION)[resource];
  assert.ok(kind !== undefined);
  return new MadeUpObjects(kind, new Versions());
}

interface Named {
  readonly metadata: { readonly name: string; readonly namespace: string; readonly labels: Record<string, string> };
}

/** Returns the objects of all pages of a list. */
function listed(made: MadeUpObjects, selection: Partial<Selection>, form: Form = "object", limit = 20): Named[] {
  const all: Named[] = [];
  let token = "";
  do {
    const page = JSON.parse(
      made.list({ ...ALL, ...selection }, form, new URLSearchParams({ limit: String(limit), continue: token })),
    );
    assert.ok(page.items.length <= limit);
    all.push(...page.items);
    token = page.metadata.continue;
  } while (token !== "");
  return all;
}

test("the pages of a list have every pod once, as a whole object", () => {
  const pods = listed(objects(), {});
  assert.equal(new Set(pods.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`)).size, 95);
  const [first] = pods as unknown as Array<{ spec: { nodeName: string }; status: { phase: string } }>;
  assert.deepEqual([first?.spec.nodeName, first?.status.phase], [nodeName(0), "Running"]);
});

test("a label selector selects the pods of the opted-in namespaces", () => {
  const pods = listed(objects(), { labelSelector: `${INJECTED}=true` }, "metadata");
  const expected = Array.from({ length: 95 }, (_, index) => podAt(POPULATION, index)).filter(({ namespace }) =>
    isOptedIn(POPULATION, namespace),
  );
  assert.ok(expected.length > 10 && expected.length < 30);
  assert.deepEqual(
    pods.map(({ metadata }) => metadata.name),
    expected.map(({ name }) => name),
  );
});

test("the pods of a node or a namespace are found without a search through the others", () => {
  const fieldSelector = `spec.nodeName=${nodeName(3)},status.phase!=Failed`;
  const every = nodeStep(fieldSelector, POPULATION.nodes);
  assert.deepEqual(every, { first: 3, step: 7 });
  const byStep = listed(objects(), { fieldSelector, every });
  const byField = listed(objects(), { fieldSelector });
  assert.ok(byField.length === 14 || byField.length === 13);
  assert.deepEqual(byStep, byField);
  const ofNamespace = listed(objects(), { namespace: "tenant-00002" });
  assert.deepEqual(new Set(ofNamespace.map(({ metadata }) => metadata.namespace)), new Set(["tenant-00002"]));
  assert.equal(ofNamespace.length, 10);
});

test("a table has the node in a column, and its rows have only metadata", () => {
  const made = objects();
  const table = JSON.parse(made.list({ ...ALL, namespace: "tenant-00001" }, "table", new URLSearchParams()));
  const column = table.columnDefinitions.findIndex(({ name }: { name: string }) => name === "Node");
  const [row] = table.rows;
  assert.deepEqual([row.cells[column], row.object.kind], [nodeName(10 % 7), "PartialObjectMetadata"]);
  assert.deepEqual(Object.keys(row.object), ["kind", "apiVersion", "metadata"]);
});

/** Starts a watch; collects its lines. */
async function watching(t: TestContext, made: MadeUpObjects, selection: Selection, version: string) {
  const counts = new Counts();
  const count = counts.of("test", "watch", "pods");
  const query = new URLSearchParams({ resourceVersion: version });
  const server = createServer((_, response) => void made.watch(selection, "metadata", query, { response, count }));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const stop = new AbortController();
  t.after(() => {
    stop.abort();
    server.close();
  });
  const answer = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, { signal: stop.signal });
  const lines = createInterface({ input: Readable.fromWeb(answer.body as never).on("error", () => {}) });
  const iterator = lines[Symbol.asyncIterator]();
  const next = async () => JSON.parse(String((await iterator.next()).value));
  return { next, events: () => sumOf(counts.take(), "events") };
}

test("a watch sends the changes since its version, and new changes of the objects that it selects", {
  timeout: 10_000,
}, async (t) => {
  const made = objects();
  made.change(0);
  const { metadata } = JSON.parse(made.list(ALL, "metadata", new URLSearchParams({ limit: "1" })));
  made.change(1);
  const selection = { ...ALL, namespace: "tenant-00000" };
  const watch = await watching(t, made, selection, metadata.resourceVersion);
  const first = await watch.next();
  assert.deepEqual([first.type, first.object.metadata.name], ["MODIFIED", podAt(POPULATION, 1).name]);
  // A pod of another namespace.
  made.change(50);
  made.change(2, "DELETED");
  const second = await watch.next();
  assert.deepEqual([second.type, second.object.metadata.name], ["DELETED", podAt(POPULATION, 2).name]);
  assert.ok(Number(second.object.metadata.resourceVersion) > Number(first.object.metadata.resourceVersion));
  assert.equal(watch.events(), 2);
});

test("a watch from a version that is too old gets the answer to list again", { timeout: 30_000 }, async (t) => {
  const made = objects();
  for (let change = 0; change < 40_001; change += 1) made.change(change % 95);
  const watch = await watching(t, made, ALL, "1001");
  const { type, object } = await watch.next();
  assert.deepEqual([type, object.code], ["ERROR", 410]);
});
