import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { EXAMPLE_REGISTRY } from "#tools/release/files.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const COLUMNS = 100;
const PAGES = execFileSync("git", ["ls-files", "*.md"], { cwd: ROOT, encoding: "utf8" }).trim().split("\n");
/** A path of a file in this repository, as the pages write it. */
const PATH = /(?<![\w./-])(?:[a-z][\w-]*\/)+[\w.-]+\.(?:ts|md|yaml|json|tpl|c)\b/g;

/** Lines of running text: no tables, no code, no headings. */
function prose(page: string): string[] {
  let fenced = false;
  return page.split("\n").filter((line) => {
    if (line.startsWith("```")) fenced = !fenced;
    return !fenced && !/^(```| {4}|\||#|<)/.test(line);
  });
}

test("the list of pages is not empty", () => {
  assert.ok(PAGES.includes("README.md") && PAGES.includes("docs/architecture.md"), PAGES.join());
});

for (const page of PAGES) {
  const text = readFileSync(join(ROOT, page), "utf8");

  test(`${page}: text wraps at ${COLUMNS} columns`, () => {
    // Text that cannot be broken, such as a long command in code style, may stand alone on a longer line.
    assert.deepEqual(
      prose(text).filter((line) => line.length > COLUMNS && !/^\s*\S?\s*`[^`]+`[.,;:]?$/.test(line)),
      [],
    );
  });

  test(`${page}: no conflict of a merge is left`, () => assert.doesNotMatch(text, /^(?:<{7}|>{7}) /m));

  test(`${page}: the files that it names exist`, () => {
    const named = [...new Set(text.match(PATH) ?? [])];
    const folder = join(ROOT, page, "..");
    assert.deepEqual(
      named.filter((path) => !existsSync(join(ROOT, path)) && !existsSync(join(folder, path))),
      [],
    );
  });
}

/** About two minutes at 250 words a minute. Lines of code and markup do not count. */
const README_WORDS = 550;

test("README.md takes two minutes to read, and its install names the ingress controller that must trust first", () => {
  const readme = readFileSync(join(ROOT, "README.md"), "utf8");
  const words = readme.split("\n").flatMap((line) => (/^( {4}|<)/.test(line) ? [] : line.match(/\S+/g)) ?? []);
  assert.ok(words.length <= README_WORDS, `${words.length} words`);
  const [, install = ""] = readme.split("\n## Install\n");
  assert.match(install, /HAProxy\s+Technologies' ingress controller refuses the header: there, do this first/);
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  assert.ok(install.includes(`oci://${EXAMPLE_REGISTRY}/charts/switchback --version ${version} `));
});

test("docs/architecture.md follows a hostname through at most 14 hops, by file and function", () => {
  const page = readFileSync(join(ROOT, "docs/architecture.md"), "utf8");
  const [, section = ""] = page.split("## One hostname, from Ingress to pod");
  const [hops = ""] = section.split("\n## ");
  const named = [...hops.matchAll(/^\d+\. `([\w./-]+)` `([\w.]+)`:/gm)];
  assert.ok(named.length > 10 && named.length <= 14, `${named.length} hops`);
  for (const [, file = "", name = ""] of named) {
    const source = readFileSync(join(ROOT, file), "utf8");
    for (const part of name.split(".")) assert.match(source, new RegExp(`\\b${part}\\b`), `${file}: ${name}`);
  }
});
