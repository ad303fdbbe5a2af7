import assert from "node:assert/strict";
import { test } from "node:test";
import { describeManaged } from "#hostmap/managed-aliases.ts";
import { createSelector } from "#hostmap/pod-selection.ts";
import type { HostAlias } from "#hostmap/types.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { hostsDiffOf } from "./map-selections.ts";

const names = ["a.example.com", "b.example.com"].map((name): [string, string[]] => [name, ["198.51.100.9"]]);
const selected = createSelector(publishedMapOf("new", new Map(names)), 500)(undefined);
const all: HostAlias = { ip: "198.51.100.9", hostnames: ["a.example.com", "b.example.com"] };

/** The diff of a pod. It has the user's aliases first, then the managed ones. */
function diffOf(managed: HostAlias[], user: HostAlias[] = [], annotations?: Record<string, string>) {
  const owned = annotations ?? { "switchback.dev/owned": describeManaged(managed) };
  return hostsDiffOf({ metadata: { annotations: owned }, spec: { hostAliases: [...user, ...managed] } }, selected);
}

test("the diff counts lines that only a new pod would have, and lines that it would not have", () => {
  assert.deepEqual(diffOf([all]), { missing: 0, extra: 0 });
  assert.deepEqual(diffOf([]), { missing: 2, extra: 0 });
  assert.deepEqual(diffOf([{ ...all, ip: "198.51.100.8" }]), { missing: 2, extra: 2 });
  assert.deepEqual(diffOf([{ ...all, hostnames: ["a.example.com", "gone.example.com"] }]), { missing: 1, extra: 1 });
});

test("the diff ignores the order and case of names, and how they are grouped into aliases", () => {
  const apart = ["B.example.com", "a.EXAMPLE.com"].map((name) => ({ ip: all.ip, hostnames: [name] }));
  assert.deepEqual(diffOf(apart), { missing: 0, extra: 0 });
});

test("the user's aliases count as present in both, so a name that they map is not missing", () => {
  const user = { ip: "192.0.2.1", hostnames: ["a.example.com", "own.example.com"] };
  assert.deepEqual(diffOf([{ ...all, hostnames: ["b.example.com"] }], [user]), { missing: 0, extra: 0 });
});

test("a pod without metadata and aliases lacks every line", () => {
  assert.deepEqual(hostsDiffOf({}, selected), { missing: 2, extra: 0 });
  assert.deepEqual(hostsDiffOf({ metadata: {}, spec: { hostAliases: null } }, selected), { missing: 2, extra: 0 });
});
