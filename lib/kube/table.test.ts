import assert from "node:assert/strict";
import { test } from "node:test";
import { objectFormat, type TableObject, tableFormat } from "./table.ts";

const COLUMNS = ["Name", "Ready", "Node"].map((name) => ({ name }));
const row = (name: string, ...cells: unknown[]) => ({ cells: [name, ...cells], object: { metadata: { name } } });
const tableOf = (rows: unknown, columnDefinitions: unknown = COLUMNS) =>
  ({ kind: "Table", metadata: { resourceVersion: "7" }, columnDefinitions, rows }) as object;

const nodes = (objects: unknown) =>
  (objects as TableObject[]).map(({ metadata, columns }) => [metadata?.name, columns]);

test("a row has its object's metadata and the cells of the requested columns", () => {
  const { itemsOf } = tableFormat(["Node", "Ready"]);
  const items = itemsOf(tableOf([row("a", "1/1", "node-1"), row("b", "0/1", "<none>"), row("c", 3, "")]));
  assert.deepEqual(nodes(items), [
    ["a", { Node: "node-1", Ready: "1/1" }],
    ["b", { Ready: "0/1" }],
    ["c", {}],
  ]);
});

test("columns are found by name: names of the list apply to events without names, new names replace them", () => {
  const { itemsOf, objectOf } = tableFormat(["Node"]);
  const event = (columns: unknown, ...cells: unknown[]) => objectOf(tableOf([row("a", ...cells)], columns));
  assert.deepEqual(nodes([event(null, "1/1", "node-1")]), [["a", {}]], "not known yet");
  itemsOf(tableOf([]));
  assert.deepEqual(nodes([event(null, "1/1", "node-1")]), [["a", { Node: "node-1" }]]);
  assert.deepEqual(nodes([event([{ name: "Name" }, { name: "Node" }], "node-2", "x")]), [["a", { Node: "node-2" }]]);
  assert.deepEqual(nodes([event(null, "node-3", "x")]), [["a", { Node: "node-3" }]]);
  assert.deepEqual(nodes([event([{ name: "Name" }], "node-4")]), [["a", {}]], "a server without the column");
});

test("lists and watches request the table with the objects' metadata", () => {
  const { listAccept, watchAccept, query } = tableFormat([]);
  const table = "application/json;as=Table;g=meta.k8s.io;v=v1";
  assert.deepEqual([listAccept, watchAccept, query], [table, table, { includeObject: "Metadata" }]);
});

test("an empty table is an empty list; other answers, and rows without objects, are neither lists nor objects", () => {
  const { itemsOf, objectOf } = tableFormat(["Node"]);
  assert.deepEqual([itemsOf(tableOf(null)), itemsOf(tableOf([]))], [[], []]);
  const bad = [
    { metadata: {}, items: [] },
    tableOf(undefined),
    tableOf([{ cells: [] }]),
    tableOf([{ cells: [], object: {} }]),
  ];
  for (const each of bad) {
    assert.equal(itemsOf(each), undefined, JSON.stringify(each));
    assert.equal(objectOf(each), undefined, JSON.stringify(each));
  }
  assert.equal(objectOf(tableOf([])), undefined);
});

test("an error is sent as a Status in either format", () => {
  const status = { kind: "Status", code: 410 };
  assert.deepEqual([tableFormat([]).objectOf(status), objectFormat(true).objectOf(status)], [status, status]);
});
