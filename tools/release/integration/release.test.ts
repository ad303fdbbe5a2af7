import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { unpublished } from "#test/fakes/release.ts";
import { describeCheckout } from "../checkout.ts";
import { makeRelease } from "../make.ts";
import type { ReleasePart } from "../part.ts";
import { PARTS } from "../parts.ts";

const TOP = join(import.meta.dirname, "..", "..", "..");
/** Parts that need only seconds and no network. Each test run makes them twice. */
const CHEAP = ["notes", "npm"];

const folder = mkdtempSync(join(tmpdir(), "switchback-release-"));
after(() => rmSync(folder, { recursive: true }));

const release = (args: readonly string[], env: Record<string, string> = {}) =>
  spawnSync(process.execPath, [join(TOP, "tools", "release", "main.ts"), ...args], {
    encoding: "utf8",
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
  });
const out = (name: string) => join(folder, name);
const options = (name: string) => unpublished({ out: out(name), version: "1.2.3" });

for (const [what, args, text] of [
  ["no folder", [], /^release: --out is missing\nusage: npm run release -- --out FOLDER/],
  ["an unknown option", ["--to", "x"], /^release: Unknown option '--to'\nusage/],
  [
    "an unknown part",
    ["--out", "x", "--only", "notes,nots"],
    new RegExp(
      `^release: --only: "nots" is no part of a release; there are ${PARTS.map(({ name }) => name).join(", ")}\n$`,
    ),
  ],
  [
    "a registry that is an address",
    ["--out", "x", "--registry", "https://x/y"],
    /"https:\/\/x\/y" is not a host with a path/,
  ],
  ...[[], ["--security-contact", " "]].map(
    (contact) =>
      [
        `a registry and ${contact.length === 0 ? "no" : "an empty"} contact`,
        ["--out", "x", "--registry", "registry.example.com/team", ...contact],
        /^release: --security-contact is missing or empty: /,
      ] as const,
  ),
  [
    "a maintainer with a quote",
    ["--out", "x", "--maintainer", 'A "B'],
    /--maintainer "A \\"B" is not NAME or "NAME <ADDRESS>"/,
  ],
  ["a key without an address", ["--out", "x", "--sign-key", "AB"], /--sign-key "AB" is not 40 upper-case hex digits/],
  [
    "a home that is no address",
    ["--out", "x", "--home", "example.com"],
    /--home "example.com" is not an https address/,
  ],
  [
    "an address of downloads that ends with a slash",
    ["--out", "x", "--downloads", "https://x/y/"],
    /"https:\/\/x\/y\/" is not an https address without a slash/,
  ],
] as const) {
  test(`${what} is refused, and the error says what is accepted`, () => {
    const { status, stderr, stdout } = release(args);
    assert.match(stderr, text);
    assert.deepEqual([status, stdout], [2, ""]);
  });
}

test("an invalid time is refused", () => {
  const { status, stderr } = release(["--out", out("time"), "--dirty"], { SOURCE_DATE_EPOCH: "today" });
  assert.deepEqual([status, stderr], [2, 'release: SOURCE_DATE_EPOCH "today" is not a number of seconds since 1970\n']);
});

test("a folder with other files is left unchanged", () => {
  mkdirSync(out("other"));
  writeFileSync(join(out("other"), "letter.txt"), "dear");
  const { status, stderr } = release(["--out", out("other"), "--only", "notes", "--dirty"]);
  assert.match(stderr, /has files that are not of a release/);
  assert.deepEqual([status, globSync("*", { cwd: out("other") })], [2, ["letter.txt"]]);
});

test("uncommitted changes are reported and refused", () => {
  const checkout = out("checkout");
  const git = (...args: string[]) =>
    execFileSync("git", ["-C", checkout, "-c", "user.name=t", "-c", "user.email=t@example.com", ...args]);
  mkdirSync(checkout);
  assert.throws(() => describeCheckout(checkout, { given: "1", dirty: false }), /is not a git checkout/);
  git("init", "-q");
  writeFileSync(join(checkout, "package.json"), '{"version":"1.2.3"}');
  git("add", ".");
  git("commit", "-q", "-m", "first", "--date=@5");
  const committed = Number(git("log", "-1", "--format=%ct"));
  const expected = { source: checkout, version: "1.2.3", epochSeconds: committed };
  assert.deepEqual(describeCheckout(checkout, { given: undefined, dirty: false }), expected);
  writeFileSync(join(checkout, "new.ts"), "");
  assert.throws(() => describeCheckout(checkout, { given: undefined, dirty: false }), /--dirty:\n\?\? new\.ts$/);
  assert.deepEqual(describeCheckout(checkout, { given: "7", dirty: true }), { ...expected, epochSeconds: 7 });
});

test("parts are made in order, and SHA256SUMS has every file, including those of an earlier run", async () => {
  const made: string[] = [];
  const part = (name: string): ReleasePart => ({
    name,
    make: async ({ out }) => {
      made.push(name);
      mkdirSync(join(out, "deep"), { recursive: true });
      writeFileSync(join(out, "deep", name), name);
      return [`deep/${name}`];
    },
  });
  await makeRelease(options("sums"), [part("a"), part("b")]);
  await makeRelease(options("sums"), [part("c")]);
  assert.deepEqual(made, ["a", "b", "c"]);
  const checked = execFileSync("sha256sum", ["--check", "SHA256SUMS"], { cwd: out("sums"), encoding: "utf8" });
  assert.equal(checked, "deep/a: OK\ndeep/b: OK\ndeep/c: OK\n");
});

test("the same checkout gives the same bytes twice", () => {
  const sums = ["one", "two"].map((name) => {
    const { status, stderr } = release(["--out", out(name), "--only", CHEAP.join(","), "--dirty"]);
    assert.equal(status, 0, stderr);
    return readFileSync(join(out(name), "SHA256SUMS"), "utf8");
  });
  assert.match(sums[0] ?? "", / NOTES\.md$/m);
  assert.equal(sums[0], sums[1]);
});

test("a version without a section in the changelog is refused", async () => {
  const notes = PARTS.filter(({ name }) => name === "notes");
  await assert.rejects(makeRelease(options("notes"), notes), /CHANGELOG\.md has no section "## 1\.2\.3"/);
});
