import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { KNOWN_SOFTWARE } from "#controller/sources/known-software.ts";

const FOLDER = join(import.meta.dirname, "..", "..", "docs", "trust");
const INDEX = readFileSync(join(FOLDER, "README.md"), "utf8");
/** Rows of the index: title and file. */
const ROWS = [...INDEX.matchAll(/^\| \[([^\]]+)\]\(([\w-]+\.md)\) \|/gm)].map(([, title = "", file = ""]) => ({
  title,
  file,
}));

test("the index leads to every page, and lists every ingress controller that the doctor knows", () => {
  const files = globSync("*.md", { cwd: FOLDER }).filter((file) => file !== "README.md");
  assert.deepEqual(ROWS.map(({ file }) => file).sort(), files.sort());
  assert.deepEqual(ROWS.map(({ title }) => title).sort(), KNOWN_SOFTWARE.map(({ title }) => title).sort());
});

for (const { title, file } of ROWS) {
  test(`${title}: what to set, how to see that it works, how to undo it, and the doctor's source`, () => {
    const page = readFileSync(join(FOLDER, file), "utf8");
    assert.ok(page.startsWith(`# ${title}\n`));
    assert.deepEqual(page.match(/^## .*$/gm), ["## Set", "## See that it works", "## Undo", "## Source"]);
    // A page with a list of addresses must link to the section that says which addresses.
    assert.equal(page.includes("<addresses of the proxy pods>"), page.includes("(README.md#the-proxies-addresses)"));
    const { source = "", versions = "versions 1 and 2" } = KNOWN_SOFTWARE.find((each) => each.title === title) ?? {};
    const stated = page.replaceAll("\n", " ").toLowerCase();
    assert.ok(stated.includes(versions), versions);
    assert.ok(page.includes(`<${source}>`), source);
  });
}
