import assert from "node:assert/strict";
import { test } from "node:test";
import { bytesPerConnection, type Checkpoint, flatnessFaults } from "./flatness.ts";

function checkpoint(index: number, change: Partial<Checkpoint> = {}): Checkpoint {
  const files = { sockets: 6, pipes: index === 0 ? 2 : 18, others: 20 };
  return { at: index * 60, connections: index * 10_000, rss: 100, files, threads: 12, active: 0, ...change };
}

const flat = Array.from({ length: 9 }, (_, index) => checkpoint(index));

test("a proxy that keeps its files and its memory passes, even with a filled pool of pipes", () => {
  assert.deepEqual(flatnessFaults(flat), []);
  assert.deepEqual(flatnessFaults(flat.with(8, checkpoint(8, { rss: 115 }))), []);
});

const cases: readonly (readonly [string, Partial<Checkpoint>, RegExp])[] = [
  ["one socket too many", { files: { sockets: 7, pipes: 18, others: 20 } }, /7 sockets are open, 6 before/],
  ["one socket too few", { files: { sockets: 5, pipes: 18, others: 20 } }, /5 sockets are open/],
  ["another file", { files: { sockets: 6, pipes: 18, others: 21 } }, /1 more files of other kinds/],
  ["pipes without end", { files: { sockets: 6, pipes: 900, others: 20 } }, /900 pipe ends/],
  ["a connection on its books", { active: 1 }, /says that 1 connections/],
  ["no answer to the question", { active: undefined }, /an unknown number of/],
  ["memory that grew", { rss: 120 }, /memory is not flat: 120 MiB at the end, 100 MiB when warm/],
];
for (const [title, change, expected] of cases) {
  test(`${title} is a fault`, () => {
    const faults = flatnessFaults(flat.with(8, checkpoint(8, change)));
    assert.equal(faults.length, 1);
    assert.match(faults[0] ?? "", expected);
  });
}

test("pipes that grow at every checkpoint are a fault before there are many", () => {
  const growing = flat.map((each, index) => ({ ...each, files: { ...each.files, pipes: 2 * index } }));
  assert.match(flatnessFaults(growing).join(), /pipes grow/);
});

test("too few checkpoints prove nothing", () => {
  assert.match(flatnessFaults(flat.slice(0, 2)).join(), /too short/);
});

test("growth is reported as bytes per connection", () => {
  const growing = flat.map((each, index) => ({ ...each, rss: 100 + index }));
  assert.ok(Math.abs(bytesPerConnection(growing) - (1024 * 1024) / 10_000) < 0.01);
});
