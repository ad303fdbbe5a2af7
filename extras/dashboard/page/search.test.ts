import assert from "node:assert/strict";
import { test } from "node:test";
import { fullStatus, NAME, REFUSED, WORKLOAD } from "#test/fakes/full-status.ts";
import { StatusChanges } from "../server/changes.ts";
import { filterNames, filterWorkloads, matching, type NameColumn, sortNames, workloadsNamed } from "./search.ts";
import { PageState } from "./state.ts";

const state = new PageState();
const warned = { ...NAME, name: "c.example.com", target: "api", warning: { code: "dns-elsewhere", text: "t" } };
const shop = { ...NAME, name: "d.shop.example.com", from: { ...NAME.from, namespace: "Alpha" } };
const workloads = [
  WORKLOAD,
  { ...WORKLOAD, namespace: "shop", name: "web" },
  { ...WORKLOAD, namespace: "shop", name: "web-admin" },
];
for (const message of new StatusChanges().take(fullStatus({ names: [NAME, shop, warned, REFUSED] }, { workloads }), 1))
  state.take(message);
const { view } = state;
const names = (rows: readonly { readonly name: string }[]) => rows.map(({ name }) => name[0]).join("");

for (const [query, found] of [
  ["", "bdca"],
  ["  ", "bdca"],
  ["EXAMPLE", "bdca"],
  ["shop", "bdca"],
  ["shop.", "d"],
  ["alpha/web", "d"],
  ["ingress b.", "b"],
  ["no-target", "a"],
  ["dns-else", "c"],
  ["edge", "bd"],
  ["nowhere", ""],
  [".*", ""],
] as const) {
  test(`"${query}" finds ${found || "nothing"}`, () => assert.equal(names(matching(view.names, query)), found));
}

for (const [query, found] of [
  ["web", "web web-admin"],
  ["shop/web-5d4f6-x2x8q", "web"],
  ["web-admin-5d4f6-x2x8q", "web web-admin"],
  ["cert-manager", "cert-manager"],
  ["webserver", ""],
  ["", ""],
] as const) {
  test(`"${query}" names ${found || "no workload"}`, () => {
    assert.equal(
      workloadsNamed(view.workloads, query)
        .map(({ name }) => name)
        .join(" "),
      found,
    );
  });
}

test("filters select workloads whose pods lack names, by their state", () => {
  const [row] = view.workloads;
  assert.ok(row);
  const rows = [row, { ...row, standing: "waiting" as const }, { ...row, stale: 0 }];
  const left = (filter: Parameters<typeof filterWorkloads>[1]) =>
    filterWorkloads(rows, filter).map((each) => rows.indexOf(each));
  assert.deepEqual(left("all"), [0, 1, 2]);
  assert.deepEqual(left("stale"), [0, 1]);
  assert.deepEqual(left("stuck"), [0]);
  assert.deepEqual(left("waiting"), [1]);
});

test("filters select names that are refused, and names with a warning", () => {
  assert.equal(names(filterNames(view.names, "refused")), "a");
  assert.equal(names(filterNames(view.names, "warned")), "c");
  assert.equal(filterNames(view.names, "all"), view.names);
});

for (const [column, up, down] of [
  ["name", "abcd", "dcba"],
  ["from", "dabc", "abcd"],
  ["target", "acbd", "bdca"],
  ["state", "acbd", "bdca"],
] as const satisfies readonly [NameColumn, string, string][]) {
  test(`rows are sorted by ${column}, and equal ones by name`, () => {
    assert.equal(names(sortNames(view.names, { column, descending: false })), up);
    assert.equal(names(sortNames(view.names, { column, descending: true })), down);
  });
}
