import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type Import, importsOf, isProduction, productionImports, sourceFiles } from "./imports.ts";
import { FLOORS, floorFaults, folderCycles, INNER_FLOORS, roomOf, valueCycles } from "./rules.ts";

const IMPORTS = productionImports();
const value = (from: string, to: string): Import => ({ from, to, kind: "value" });

test("every folder with production code is a room, and every room has code", () => {
  const folders = new Set(
    sourceFiles()
      .filter(isProduction)
      .map((file) => roomOf(file)),
  );
  assert.deepEqual([...folders].sort(), FLOORS.flat().sort());
});

test("no room imports a room above it or beside it", () => {
  assert.ok(IMPORTS.length > 1000, `${IMPORTS.length} imports`);
  assert.deepEqual(floorFaults(IMPORTS), []);
});

test("no folders import each other in a circle", () => {
  assert.deepEqual(folderCycles(IMPORTS), []);
});

test("no files import each other's values in a circle", () => {
  assert.deepEqual(valueCycles(IMPORTS), []);
});

test("docs/architecture.md names every room once, floor by floor", () => {
  const page = readFileSync(join(import.meta.dirname, "..", "..", "docs", "architecture.md"), "utf8");
  const rows = [...page.matchAll(/^\| (\d+) \| `([a-z/-]+)\/` \|/gm)].map(([, floor, room]) => `${floor} ${room}`);
  const rooms = FLOORS.flatMap((floor, index) => floor.map((room) => `${FLOORS.length - index} ${room}`));
  assert.deepEqual(rows.sort(), rooms.sort());
});

test("docs/architecture.md names every room inside a room", () => {
  const page = readFileSync(join(import.meta.dirname, "..", "..", "docs", "architecture.md"), "utf8");
  const rows = [...page.matchAll(/^\| `([a-z]+\/[a-z]+)\/` \|/gm)].map(([, folder]) => folder);
  const inner = Object.entries(INNER_FLOORS).flatMap(([room, floors]) =>
    floors.flat().map((name) => `${room}/${name}`),
  );
  assert.deepEqual(rows.sort(), inner.sort());
});

for (const [what, imports, faults] of [
  ["up", [value("lib/kube/a.ts", "certs/b.ts")], ["lib/kube/a.ts -> certs/b.ts: certs is not below lib/kube"]],
  [
    "to the same floor",
    [value("webhook/a.ts", "controller/b.ts")],
    ["webhook/a.ts -> controller/b.ts: controller is not below webhook"],
  ],
  [
    "to no room",
    [value("extras/agent/a.ts", "attic/b.ts")],
    ["extras/agent/a.ts -> attic/b.ts: attic is no room of the house"],
  ],
  [
    "of a test by the product",
    [value("lib/kube/a.ts", "test/b.ts")],
    ["lib/kube/a.ts -> test/b.ts: test is no room of the house"],
  ],
  [
    "from a room inside to the outer one",
    [value("controller/rollout/a.ts", "controller/run.ts")],
    ["controller/rollout/a.ts -> controller/run.ts: controller is not below controller/rollout"],
  ],
  [
    "up inside a room",
    [value("controller/sources/a/b.ts", "controller/targets/c.ts")],
    ["controller/sources/a/b.ts -> controller/targets/c.ts: controller/targets is not below controller/sources/a"],
  ],
  [
    "down, inside, and by a bench",
    [
      value("cli/a.ts", "lib/kube/b.ts"),
      value("lib/kube/a.ts", "lib/kube/b.ts"),
      value("tools/bench/a.ts", "test/b.ts"),
      value("controller/run.ts", "controller/rollout/a.ts"),
      value("controller/targets/a.ts", "controller/sources/b.ts"),
    ],
    [],
  ],
] as const) {
  test(`an import ${what}`, () => assert.deepEqual(floorFaults(imports), faults));
}

test("a circle of files is found, one by types or on demand is none", () => {
  const circle = [value("a/1.ts", "a/2.ts"), value("a/2.ts", "a/3.ts"), value("a/3.ts", "a/1.ts")];
  assert.deepEqual(valueCycles(circle), ["a/1.ts -> a/2.ts -> a/3.ts -> a/1.ts"]);
  for (const kind of ["type", "lazy"] as const) {
    assert.deepEqual(valueCycles([...circle.slice(0, 2), { from: "a/3.ts", to: "a/1.ts", kind }]), []);
  }
});

test("a circle of folders is found, a folder and those inside it are none", () => {
  assert.deepEqual(folderCycles([value("a/x/1.ts", "a/y/2.ts"), value("a/y/3.ts", "a/x/4.ts")]), ["a/x, a/y"]);
  assert.deepEqual(folderCycles([value("a/1.ts", "a/y/2.ts"), value("a/y/3.ts", "a/4.ts")]), []);
});

test("imports are read as they are written", () => {
  const source = [
    'import { a } from "./a.ts";',
    'import type { B } from "../b/b.ts";',
    'import {\n  c,\n  type D,\n} from "./c.ts";',
    'export { e } from "./e.ts";',
    'import "./f.ts";',
    'const g = await import("./g.ts");',
    'import { join } from "node:path";',
  ].join("\n");
  assert.deepEqual(
    importsOf("x/y.ts", source).map(({ to, kind }) => `${kind} ${to}`),
    ["value x/a.ts", "type b/b.ts", "value x/c.ts", "value x/e.ts", "value x/f.ts", "lazy x/g.ts"],
  );
});
