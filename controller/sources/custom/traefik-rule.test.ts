import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "#test/property.ts";
import { hostsOfRule } from "./traefik-rule.ts";

const RULES: ReadonlyArray<readonly [rule: string, hosts: readonly string[] | undefined]> = [
  ["Host(`a.com`)", ["a.com"]],
  ["Host(`a.com`, `b.com`)", ["a.com", "b.com"]],
  ["Host(`a.com`,`b.com`)", ["a.com", "b.com"]],
  ['Host("a.com")', ["a.com"]],
  ['Host("a\\"b")', ['a"b']],
  ["Host(`a.com`) || Host(`b.com`)", ["a.com", "b.com"]],
  ["Host(`a.com`) && PathPrefix(`/x`)", ["a.com"]],
  ["PathPrefix(`Host(a.com)`)", []],
  ["(Host(`a.com`) || (Host(`b.com`) && Method(`GET`)))", ["a.com", "b.com"]],
  ["HOST(`a.com`) || host(`b.com`)", ["a.com", "b.com"]],
  ["HostHeader(`a.com`)", ["a.com"]],
  ["HostSNI(`a.com`)", ["a.com"]],
  ["HostSNI(`*`)", ["*"]],
  ["HostRegexp(`^.+\\.com$`)", []],
  ["!Host(`a.com`)", []],
  ["!Host(`a.com`) && Host(`b.com`)", ["b.com"]],
  ["!(Host(`a.com`) || Host(`b.com`)) || Host(`c.com`)", ["c.com"]],
  ["!(!Host(`a.com`))", ["a.com"]],
  ["(!(Host(`a.com`) || (Host(`b.com`))))", []],
  ["!!Host(`a.com`)", ["a.com"]],
  ["  Host(`a.com`)\n  || Host(`b.com`)  ", ["a.com", "b.com"]],
  ["", []],
  ["Host(`a.com`", undefined],
  ["Host(`a.com`))", undefined],
  ["(Host(`a.com`)", undefined],
  ["Host`a.com`", undefined],
  ["Host(a.com)", undefined],
  ["Host(`a.com)", undefined],
  ["Host(`a.com`) ||| Host(`b.com`)", undefined],
  ["Host(`a.com`) !", undefined],
  ["`a.com`", undefined],
  ["Host", undefined],
  ["a.com", undefined],
];
for (const [rule, hosts] of RULES) {
  test(`${JSON.stringify(rule)}: ${hosts?.join(", ") ?? "no rule"}`, () => assert.deepEqual(hostsOfRule(rule), hosts));
}

test("a very long rule, or one with only brackets, exhausts neither stack nor time", () => {
  const begun = performance.now();
  assert.equal(hostsOfRule("(".repeat(60_000)), undefined);
  assert.deepEqual(hostsOfRule(`${"(".repeat(20_000)}Host(\`a.com\`)${")".repeat(20_000)}`), ["a.com"]);
  assert.equal(hostsOfRule(`Host(\`${"a".repeat(1_000_000)}\`)`), undefined);
  assert.equal(hostsOfRule(`"${"\\".repeat(60_000)}`), undefined);
  assert.ok(performance.now() - begun < 2_000);
});

test("property: no text makes it throw, and hosts are quoted texts", () => {
  const piece = fc.constantFrom(
    "Host(",
    "`a.com`",
    '"b.com"',
    ")",
    "(",
    "!",
    "&&",
    "||",
    ",",
    " ",
    "x",
    "`",
    '"',
    "\\",
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
      const rule = pieces.join("");
      for (const host of hostsOfRule(rule) ?? [])
        assert.ok(rule.includes(host) || host.includes("`") || rule.includes("\\"));
    }),
    { numRuns: 3_000 },
  );
});
