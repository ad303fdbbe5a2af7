import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ROOT } from "./files.ts";
import { Sandboxes, withText } from "./sandbox.ts";

const FILES = new Map([
  ["a.json", { content: Buffer.from("{}"), mode: 0o644 }],
  ["b/c.ts", { content: Buffer.from("as it was"), mode: 0o755 }],
]);
const { signal } = new AbortController();

test("a copy has the files and the installed packages; no copy outlives its owner", () => {
  let trees: string[] = [];
  {
    using sandboxes = new Sandboxes(FILES, signal);
    const [one, other] = [sandboxes.make(), sandboxes.make()];
    trees = [one.tree, other.tree];
    for (const tree of trees) {
      assert.equal(readFileSync(join(tree, "a.json"), "utf8"), "{}");
      assert.equal(statSync(join(tree, "b/c.ts")).mode & 0o777, 0o755);
      assert.equal(readFileSync(join(tree, "b/c.ts"), "utf8"), "as it was");
      assert.equal(realpathSync(join(tree, "node_modules")), realpathSync(join(ROOT, "node_modules")));
      assert.deepEqual(readdirSync(tree).sort(), [".git", "a.json", "b", "node_modules"]);
      assert.equal(execFileSync("git", ["ls-files"], { cwd: tree, encoding: "utf8" }), "a.json\nb/c.ts\n");
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

test("a changed file is restored afterwards, even after a failure", async () => {
  using sandboxes = new Sandboxes(FILES, signal);
  const place = sandboxes.make();
  const text = () => readFileSync(join(place.tree, "b/c.ts"), "utf8");
  const failing = withText(place, ["b/c.ts", "as it was", "changed"], async () => {
    assert.equal(text(), "changed");
    throw new Error("failed");
  });
  await assert.rejects(failing, /failed/);
  assert.equal(text(), "as it was");
});
