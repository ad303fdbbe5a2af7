import assert from "node:assert/strict";
import { test } from "node:test";
import { anyNames, goodNames, HOSTILE_NAMES } from "#test/arbitraries.ts";
import { fc } from "#test/property.ts";
import { compareNames, isGlob, parseGlob, parseHostname, show } from "./hostnames.ts";

const LABEL_63 = "a".repeat(63);
/** 253 bytes, the maximum. */
const LONGEST = [LABEL_63, LABEL_63, LABEL_63, "a".repeat(57), "com"].join(".");

const ACCEPTED: ReadonlyArray<readonly [text: string, kind: "name" | "wildcard", name: string]> = [
  ["a.example.com", "name", "a.example.com"],
  ["API.Example.COM", "name", "api.example.com"],
  ["xn--mnchen-3ya.example.com", "name", "xn--mnchen-3ya.example.com"],
  ["1.example.com", "name", "1.example.com"],
  ["0x7f.example.com", "name", "0x7f.example.com"],
  ["a--b.example.com", "name", "a--b.example.com"],
  ["a.1x", "name", "a.1x"],
  ["a.0xg", "name", "a.0xg"],
  [`${LABEL_63}.com`, "name", `${LABEL_63}.com`],
  [LONGEST, "name", LONGEST],
  [`${"a.".repeat(30)}example.com`, "name", `${"a.".repeat(30)}example.com`],
  ["*.Example.com", "wildcard", "*.example.com"],
];
for (const [text, kind, name] of ACCEPTED) {
  test(`${text.slice(0, 40)} is accepted as a ${kind}`, () => assert.deepEqual(parseHostname(text), { kind, name }));
}

const REFUSED: readonly string[] = [
  "",
  `a${LONGEST}`,
  `${"a.".repeat(31)}example.com`,
  `*.${"a.".repeat(31)}example.com`,
  "localhost",
  "*.com",
  "127.0.0.1",
  "127.1",
  "0x7f.1",
  "a.0X7F",
  "a.example.0x",
  "*.1.2.3.4",
  "::1",
  "a.example.com:443",
  "a.example.com.",
  "a b.example.com",
  "a.example.com\n",
  "*.*.example.com",
  "a_b.example.com",
  `${LABEL_63}a.com`,
  "\u212aube.example.com",
];
for (const text of REFUSED) {
  test(`${JSON.stringify(text).slice(0, 40)} is refused`, () => {
    const parsed = parseHostname(text);
    assert.equal(parsed.kind === "invalid" && parsed.reason.code, "name-invalid");
  });
}

test("every hostile name is refused, with a reason that is safe for a terminal", () => {
  for (const name of HOSTILE_NAMES) {
    const parsed = parseHostname(name);
    assert.equal(parsed.kind, "invalid", show(name));
    assert.ok(parsed.kind === "invalid" && /^[\x20-\x7e]{1,700}$/.test(parsed.reason.text), show(name));
  }
});

test("property: an accepted name is the text in lower-case ASCII, and is accepted again", () => {
  fc.assert(
    fc.property(anyNames, (text) => {
      const parsed = parseHostname(text);
      if (parsed.kind === "invalid") return;
      assert.equal(
        parsed.name,
        text.replace(/[A-Z]/g, (letter) => letter.toLowerCase()),
      );
      assert.match(parsed.name, /^(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/);
      assert.ok(parsed.name.length <= 253);
      assert.deepEqual(parseHostname(parsed.name), parsed);
      // A resolver that follows the WHATWG URL standard does not parse it as an address either.
      assert.equal(new URL(`http://${parsed.name.replace("*.", "")}/`).hostname, parsed.name.replace("*.", ""));
    }),
    { numRuns: 2_000 },
  );
});

test("property: valid names are accepted", () => {
  fc.assert(fc.property(goodNames, (name) => parseHostname(name).kind === "name"));
});

const GLOBS: ReadonlyArray<readonly [glob: string, matching: readonly string[], other: readonly string[]]> = [
  ["*", ["a.example.com", "*.example.com"], []],
  ["*.example.com", ["a.example.com", "b.a.example.com", "*.example.com"], ["example.com", "badexample.com"]],
  [" *.Example.COM ", ["a.example.com"], ["a.example.org"]],
  ["*.local", ["printer.local"], ["local", "a.notlocal"]],
  ["api.example.com", ["api.example.com"], ["a.api.example.com", "xapi.example.com"]],
];
for (const [text, matching, other] of GLOBS) {
  test(`the pattern ${text} matches ${matching.join(" ")}, not ${other.join(" ")}`, () => {
    const glob = parseGlob(text);
    assert.ok(isGlob(glob));
    assert.deepEqual([...matching, ...other].filter(glob.matches), matching);
  });
}

for (const text of [
  "",
  "local",
  "*.*.x",
  "a.*.com",
  "**",
  "*x.com",
  "1.2.3.4",
  "*.a b",
  "*.\u212a.com",
  "*.example.com.",
  `*.${LONGEST}a`,
  `*.${"a.".repeat(32)}com`,
]) {
  test(`${JSON.stringify(text)} is not a pattern`, () => {
    const glob = parseGlob(text);
    assert.ok(!isGlob(glob));
    assert.equal(glob.code, "name-invalid");
  });
}

test("show escapes control characters and truncates", () => {
  assert.equal(show('a\n\u001b[31m"é\u2028'), '"a\\n\\u001b[31m\\"\\u00e9\\u2028"');
  assert.equal(show("x".repeat(100)), `"${"x".repeat(77)}..."`);
});

test("compareNames sorts by code units", () => {
  assert.deepEqual(["b", "a-", "a.", "B", "a"].sort(compareNames), ["B", "a", "a-", "a.", "b"]);
  assert.equal(compareNames("a", "a"), 0);
});

test("the full text of each reason why a hostname is refused", () => {
  const reason = (text: string) => {
    const parsed = parseHostname(text);
    return parsed.kind === "invalid" ? parsed.reason : undefined;
  };
  const label = "labels have 1 to 63 letters, digits and inner hyphens; write IDNA names as xn--";
  const texts: Readonly<Record<string, readonly [code: string, text: string]>> = {
    "": ["name-invalid", "a hostname must not be empty"],
    [`a${LONGEST}`]: ["name-invalid", "a hostname has at most 253 bytes, this one has 254"],
    [`${"a.".repeat(31)}example.com`]: ["name-invalid", "a hostname has at most 32 labels, this one has 33"],
    local: ["name-invalid", '"local" has one label; a public name has at least two'],
    "127.1": ["name-invalid", '"127.1" is, or would be read as, an IP address'],
    "a.com:1": ["name-invalid", '"a.com:1" is an IPv6 address or has a port; a hostname is expected'],
    "a..com": ["name-invalid", `"a..com" has an empty label (a leading, doubled or trailing dot); ${label}`],
    "a.b_c.com": ["name-invalid", `"a.b_c.com" has the label "b_c"; ${label}`],
  };
  for (const [name, [code, text]] of Object.entries(texts)) assert.deepEqual(reason(name), { code, text });
  assert.equal(parseHostname(5 as never).kind, "invalid");
});
