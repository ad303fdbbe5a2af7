import assert from "node:assert/strict";
import { test } from "node:test";
import { renderRootTemplates } from "./root-templates.ts";
import { healthNameOf, tagOf } from "./server-blocks.ts";

const options = { publisher: "coredns-import", taken: new Set(["", "corp.test"]), maxBytes: 900_000 };
const mapOf = (...names: string[]) => ({
  revision: "r1",
  entries: names.map((name) => [name, ["198.51.100.9"]] as const),
});
const matchesOf = (text: string) =>
  [...text.matchAll(/template IN A \. \{\n +match "(.*)"/g)].map(([, pattern]) => pattern);

test("the text of a small map", () => {
  const { text } = renderRootTemplates(mapOf("shop.example.com"), options);
  const health = healthNameOf("coredns-import").replaceAll(".", "[.]");
  assert.ok(text.includes(`match "^(?:${health})[.]$"\n        answer "{{ .Name }} 1 IN A ${tagOf("r1")}"`), text);
  assert.ok(
    text.endsWith(`    template IN A . {
        match "^(?:shop[.]example[.]com)[.]$"
        answer "{{ .Name }} 5 IN A 198.51.100.9"
        fallthrough
    }
    template IN AAAA . {
        match "^(?:shop[.]example[.]com)[.]$"
        rcode NOERROR
        fallthrough
    }
`),
    text,
  );
});

test("exact names come first, then the nearest wildcards, and of equally near ones those of one label", () => {
  const { text } = renderRootTemplates(mapOf("**.b.test", "*.b.test", "**.x.b.test", "a.b.test"), options);
  assert.deepEqual(matchesOf(text).slice(1), [
    "^(?:a[.]b[.]test)[.]$",
    "^(?:[^.]+[.])+(?:x[.]b[.]test)[.]$",
    "^[^.]+[.](?:b[.]test)[.]$",
    "^(?:[^.]+[.])+(?:b[.]test)[.]$",
  ]);
});

test("names that another server block answers are left out, at any depth below its zone", () => {
  const names = ["corp.test", "a.b.corp.test", "*.corp.test", "xcorp.test", "**.invalid"];
  const { names: count, elsewhere } = renderRootTemplates(mapOf(...names), options);
  assert.deepEqual([count, elsewhere], [1, 4]);
});

test("a pattern has at most 100 names, and all patterns 2,000: those that were published first", () => {
  const names = Array.from({ length: 2_500 }, (_, at) => `n${at}.example.com`);
  const { text, names: count, tooMany } = renderRootTemplates(mapOf(...names), options);
  assert.deepEqual([count, tooMany], [2_000, 500]);
  const sizes = matchesOf(text).map((pattern) => pattern?.split("|").length);
  assert.deepEqual(sizes, [1, ...Array(20).fill(100)]);
  assert.ok(text.includes("(?:n0[.]") && text.includes("|n1999[.]") && !text.includes("|n2000[.]"));
});

test("the longest names, each with different addresses, stay within the maximum size", () => {
  const label = "x".repeat(60);
  const entries = Array.from({ length: 3_000 }, (_, at) => {
    const name = `${at}.${label}.${label}.${label}.${at}.test`;
    return [name, [`2001:db8::${(at + 1).toString(16)}`, `198.51.${at >> 8}.${at & 255}`]] as const;
  });
  const { text, names } = renderRootTemplates({ revision: "r", entries }, options);
  assert.ok(Buffer.byteLength(text) <= options.maxBytes && names > 500, `${names} names in ${text.length} bytes`);
});
