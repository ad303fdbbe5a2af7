import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { test } from "node:test";

// docs/README.md is the map. Every page is reachable from the README, and pages of docs/ in at most two steps.

const ROOT = join(import.meta.dirname, "..", "..");
const PAGES = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "*.md"], {
  cwd: ROOT,
  encoding: "utf8",
})
  .trim()
  .split("\n")
  .filter((page) => existsSync(join(ROOT, page)));

/** Targets of Markdown links inside the repository, as paths from its top. */
function linksOf(page: string): string[] {
  const text = readFileSync(join(ROOT, page), "utf8");
  const targets = [...text.matchAll(/\]\(([^)\s#]+)(?:#[^)]*)?\)/g)].map(([, target = ""]) => target);
  return targets
    .filter((target) => !/^[a-z]+:/.test(target))
    .map((target) => normalize(join(dirname(page), target)).replace(/\/$/, ""));
}

/** Pages that a page names, by a link or by their path. */
function namedBy(page: string): string[] {
  const text = readFileSync(join(ROOT, page), "utf8");
  const links = new Set(linksOf(page));
  return PAGES.filter((other) => links.has(other) || links.has(dirname(other)) || text.includes(other));
}

test("every link leads to a file", () => {
  const broken = PAGES.flatMap((page) =>
    linksOf(page)
      .filter((target) => !existsSync(join(ROOT, target)))
      .map((target) => `${page}: ${target}`),
  );
  assert.deepEqual(broken, []);
});

/** The anchors of a page's headings, as GitHub makes them. */
function anchorsOf(page: string): Set<string> {
  const headings = readFileSync(join(ROOT, page), "utf8").match(/^#+ .*$/gm) ?? [];
  const slug = (heading: string) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
      .trim()
      .replaceAll(" ", "-");
  return new Set(headings.map((heading) => slug(heading.replace(/^#+ /, ""))));
}

test("every link to a section leads to one", () => {
  const links = PAGES.flatMap((page) =>
    [...readFileSync(join(ROOT, page), "utf8").matchAll(/\]\(([^)\s#:]*)#([^)]+)\)/g)].map(
      ([, target = "", anchor = ""]) => ({ page, to: target === "" ? page : join(dirname(page), target), anchor }),
    ),
  );
  assert.ok(links.length > 0);
  assert.deepEqual(
    links.filter(({ to, anchor }) => !anchorsOf(to).has(anchor)),
    [],
  );
});

test("every page is reachable from the README, and pages of docs/ through its map", () => {
  const map = join("docs", "README.md");
  assert.ok(namedBy("README.md").includes(map));
  const direct = new Set(namedBy(map));
  const missing = PAGES.filter((page) => dirname(page) === "docs" && page !== map && !direct.has(page));
  assert.deepEqual(missing, []);
  const reached = new Set(["README.md"]);
  for (const page of reached) for (const other of namedBy(page)) reached.add(other);
  assert.deepEqual(
    PAGES.filter((page) => !reached.has(page)),
    [],
  );
});
