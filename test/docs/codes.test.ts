import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { codeParts } from "#tools/gen/codes-page.ts";

const ROOT = join(import.meta.dirname, "..", "..");
/**
 * Files of tests, measurements and release tools, and the parser of PROXY headers, which only they use. They print no
 * codes for users of Switchback.
 */
const NOT_RUN =
  /^(?:test|bench|release|demo)\/|\.test\.ts$|\/(?:conformance|fakes|integration|e2e)\/|^proxy\/proxy-header-parse\.ts$/;
const SOURCES = new Map(
  execFileSync("git", ["ls-files", "*.ts"], { cwd: ROOT, encoding: "utf8" })
    .trim()
    .split("\n")
    .filter((file) => !NOT_RUN.test(file))
    .map((file) => [file, readFileSync(join(ROOT, file), "utf8")] as const),
);

const WORD = "[a-z][a-z0-9]*(?:-[a-z0-9]+)*";
const HYPHENATED = "[a-z][a-z0-9]*(?:-[a-z0-9]+)+";
/** Text with a space in it, possibly with values. */
const SENTENCE = '(?:"[^"\\n]* [^"\\n]*"|`[^`]* [^`]*`)';
/** Arguments before the code: a subject, in any form that contains no comma. */
const ARGUMENTS = '(?:[^,()"]*(?:"[^"]*")?(?:\\([^()]*\\))?,\\s*)*?';

/** How the sources write a code. Each pattern captures text with one or more words in quotes. */
const FORMS: ReadonlyArray<readonly [form: string, pattern: RegExp]> = [
  ["a field or a comparison", new RegExp(`\\bcode(?::| [!=]==| =) ((?:"${WORD}"(?: \\| )?)+)`, "g")],
  ["an error", new RegExp(`SwitchbackError\\(\\s*("${WORD}")`, "g")],
  ["a code and its text", new RegExp(`("${HYPHENATED}"),\\s*${SENTENCE}`, "g")],
  ["a finding", new RegExp(`\\b(?:ok|warning|broken|unknown|notKnown)\\(\\s*${ARGUMENTS}("${HYPHENATED}")`, "g")],
  ["a decision", new RegExp(`\\b(?:stuck|waiting|left|inStep|skip)\\(\\s*("${WORD}")`, "g")],
  ["a reason", new RegExp(`\\b(?:refusal|warningsFor|retrying|notify)\\(\\s*("${HYPHENATED}")`, "g")],
  ["a union of codes", /\btype \w*Code =([^;]*);/g],
  ["a list of causes", /\b\w+_CAUSES = \[([^\]]*)\]/g],
  ["a table of codes", /\b\w+_CODES\b[^=;]*=\s*\{([^}]*)\}/g],
  ["a function that returns a code", /\bfunction \w*Code\([^)]*\): string \{([\s\S]*?)\n\}/g],
];

/** Words that the patterns find but that are not codes. */
const NO_CODES: ReadonlyMap<string, string> = new Map([
  ["self-signed", "the default of a setting"],
  ["coredns-custom", "the default of a setting"],
  ["switchback-system", "the default of a setting"],
]);

/** Every code of the sources, with the files that have it. */
function codesOfSources(): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>();
  const add = (code: string, file: string) => found.set(code, (found.get(code) ?? new Set()).add(file));
  const all = [...SOURCES.values()].join("\n");
  for (const [file, text] of SOURCES) {
    for (const [, pattern] of FORMS) {
      for (const [, captured = ""] of text.matchAll(pattern)) {
        for (const [, word = ""] of captured.matchAll(new RegExp(`"(${WORD})"`, "g"))) add(word, file);
      }
    }
    // If several files use a code, the code is a constant.
    for (const [, name = ""] of text.matchAll(/\bcode: ([A-Z][A-Z_]+)\b/g)) {
      const [, value] = all.match(new RegExp(`\\bconst ${name} = "(${WORD})"`)) ?? [];
      if (value !== undefined) add(value, file);
    }
  }
  return found;
}

const found = codesOfSources();
const parts = [...codeParts().values()];
const rows = parts.flatMap((part) => part.rows);
const listed = new Set(rows.flatMap(({ codes }) => codes));

test("each form of a code is in use", () => {
  assert.ok(found.size > 200, String(found.size));
  const texts = [...SOURCES.values()];
  assert.deepEqual(
    FORMS.filter(([, pattern]) => !texts.some((text) => text.match(pattern))).map(([form]) => form),
    [],
  );
});

test("every code has a table row", () => {
  assert.deepEqual(
    [...found].filter(([code]) => !listed.has(code) && !NO_CODES.has(code)).map(([code, files]) => [code, ...files]),
    [],
  );
});

test("every row is about codes that exist", () => {
  assert.deepEqual(
    [...listed].filter((code) => !found.has(code)),
    [],
  );
  assert.deepEqual(
    [...NO_CODES.keys()].filter((word) => !found.has(word)),
    [],
  );
});

test("all codes of a row are used in the row's part of the code", () => {
  const isUsed = (code: string, room: string) =>
    [...(found.get(code) ?? [])].some((file) => file.startsWith(`${room}/`));
  assert.deepEqual(
    rows.flatMap(({ codes, room }) => codes.filter((code) => !isUsed(code, room)).map((code) => `${room}: ${code}`)),
    [],
  );
});

test("a code has only one row in a part", () => {
  for (const part of parts) {
    const codes = part.rows.flatMap((row) => row.codes);
    assert.deepEqual(
      codes.filter((code, index) => codes.indexOf(code) !== index),
      [],
    );
  }
});

test("every code that docs/troubleshooting.md names is in a table", () => {
  const page = readFileSync(join(ROOT, "docs", "troubleshooting.md"), "utf8");
  const words = [...page.matchAll(new RegExp(`\`(${HYPHENATED})\``, "g"))].map(([, word = ""]) => word);
  assert.deepEqual(
    words.filter((word) => !listed.has(word) && word !== "switchback-all"),
    [],
  );
});
