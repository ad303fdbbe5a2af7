import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ROOT } from "./files.ts";
import { Sandboxes, withText } from "./sandbox.ts";

const FILES = ["package.json", "test/mutants/sandbox.ts"];
const SOURCES = new Map([["test/mutants/sandbox.ts", "as it was"]]);
const { signal } = new AbortController();

test("a copy has the files, the texts as they were read, and the installed packages; no copy outlives its owner", () => {
  let trees: string[] = [];
  {
    using sandboxes = new Sandboxes(FILES, SOURCES, signal);
    const [one, other] = [sandboxes.make(), sandboxes.make()];
    trees = [one.tree, other.tree];
    for (const tree of trees) {
      assert.equal(readFileSync(join(tree, "package.json"), "utf8"), readFileSync(join(ROOT, "package.json"), "utf8"));
      assert.equal(readFileSync(join(tree, "test/mutants/sandbox.ts"), "utf8"), "as it was");
      assert.equal(realpathSync(join(tree, "node_modules")), realpathSync(join(ROOT, "node_modules")));
      assert.deepEqual(readdirSync(tree).sort(), ["node_modules", "package.json", "test"]);
    }
    assert.notEqual(one.temp, other.temp);
    assert.ok(existsSync(one.temp) && existsSync(other.temp));
    assert.equal(one.signal, signal);
  }
  assert.deepEqual(
    trees.filter((tree) => existsSync(tree)),
    [],
  );
  assert.ok(existsSync(join(ROOT, "node_modules")));
});

test("a changed file is as it was afterwards, after a failure as well", async () => {
  using sandboxes = new Sandboxes(FILES, SOURCES, signal);
  const place = sandboxes.make();
  const text = () => readFileSync(join(place.tree, "test/mutants/sandbox.ts"), "utf8");
  const failing = withText(place, ["test/mutants/sandbox.ts", "as it was", "changed"], async () => {
    assert.equal(text(), "changed");
    throw new Error("failed");
  });
  await assert.rejects(failing, /failed/);
  assert.equal(text(), "as it was");
});
