import assert from "node:assert/strict";
import { test } from "node:test";
import { markedBlock, splitMarked } from "./marked-block.ts";
import { type BlocksOptions, healthNameOf, renderServerBlocks, tagOf } from "./server-blocks.ts";

const options: BlocksOptions = {
  publisher: "coredns",
  listen: { port: 53, bind: [] },
  taken: new Set(),
  first: true,
  maxBytes: 900_000,
};
const mapOf = (...names: string[]) => ({
  revision: "r1",
  entries: names.map((name) => [name, ["198.51.100.9"]] as const),
});

test("the text of a small map", () => {
  const { text } = renderServerBlocks(mapOf("shop.example.com"), { ...options, listen: { port: 53, bind: ["::"] } });
  const health = healthNameOf("coredns");
  assert.ok(text.includes(`expr type() in ['A','AAAA'] && (name() in ['${health}.'])`), text);
  assert.ok(text.includes(`answer "{{ .Name }} 1 IN A ${tagOf("r1")}"`));
  assert.ok(
    text.endsWith(`example.com:53 {
    bind ::
    view switchback_coredns_2 {
        expr type() in ['A','AAAA'] && (name() in ['shop.example.com.'])
    }
    errors
    template IN A . {
        answer "{{ .Name }} 5 IN A 198.51.100.9"
    }
    template IN AAAA . {
        rcode NOERROR
    }
}
`),
    text,
  );
});

test("if there is no room for all names, those that were published first stay, and the rest is counted", () => {
  const names = Array.from({ length: 5_000 }, (_, at) => `n${at}.example.com`);
  const { text, names: count, tooMany } = renderServerBlocks(mapOf(...names), { ...options, maxBytes: 100_000 });
  assert.ok(text.length <= 100_000 && count > 1_500, `${count} names in ${text.length} bytes`);
  assert.equal(count + tooMany, 5_000);
  assert.ok(text.includes(`'n${count - 1}.example.com.'`) && !text.includes(`'n${count}.example.com.'`));
});

test("the longest names, each with different addresses, stay within the maximum size", () => {
  const label = "x".repeat(60);
  const entries = Array.from({ length: 3_000 }, (_, at) => {
    const name = `${at}.${label}.${label}.${label}.${at}.test`;
    return [name, [`2001:db8::${(at + 1).toString(16)}`, `198.51.${at >> 8}.${at & 255}`]] as const;
  });
  const { text, names } = renderServerBlocks({ revision: "r", entries }, options);
  assert.ok(Buffer.byteLength(text) <= options.maxBytes && names > 500, `${names} names in ${text.length} bytes`);
});

test("a claim for a publisher's health name, or for a wildcard over it, is left out", () => {
  const names = [
    "coredns-import.publisher.switchback.invalid",
    "*.publisher.switchback.invalid",
    "**.invalid",
    "*.invalid",
  ];
  const { text, elsewhere } = renderServerBlocks(mapOf("a.example.com", ...names), options);
  assert.equal(elsewhere, names.length);
  assert.ok(!text.includes("coredns-import") && !text.includes("matches"), text);
});

test("a part without its last line is not ours, and a part in the middle of a file is found alone", () => {
  const block = markedBlock("body\n", "coredns", "x");
  assert.deepEqual(splitMarked(`a\n${block}b\n`, "coredns"), { before: "a\n", block, after: "b\n" });
  assert.deepEqual(splitMarked(`${block}b\n`, "coredns"), { before: "", block, after: "b\n" });
  const cut = block.slice(0, -3);
  assert.equal(splitMarked(`${cut}b\n`, "coredns").block, undefined);
  assert.equal(splitMarked(`x${block}`, "coredns").block, undefined, "not at the beginning of a line");
  assert.equal(splitMarked(block, "coredns-import").block, undefined);
});

test("neither a view nor a template's list of zones grows with the number of wildcards", () => {
  const names = Array.from({ length: 500 }, (_, at) => [`*.t${at}.example.com`, `**.t${at}.example.com`]).flat();
  const { text } = renderServerBlocks(mapOf(...names, "**.a.t1.example.com"), options);
  const views = text.split("\n").filter((line) => line.includes("matches"));
  assert.deepEqual(views.sort(), [
    "        expr type() in ['A','AAAA'] && (name() matches '^(?:[^.]+[.]){4}$')",
    "        expr type() in ['A','AAAA'] && (name() matches '^(?:[^.]+[.]){4}(?:[^.]+[.])*$')",
    "        expr type() in ['A','AAAA'] && (name() matches '^(?:[^.]+[.]){5}(?:[^.]+[.])*$')",
  ]);
  for (const line of text.split("\n").filter((each) => each.includes("template IN")))
    assert.match(line, /^ {4}template IN A{1,4} \. \{$/);
});
