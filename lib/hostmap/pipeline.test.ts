import assert from "node:assert/strict";
import { test } from "node:test";
import { anyNames, claimOf, goodNames } from "#test/arbitraries.ts";
import { fc } from "#test/property.ts";
import { createClaimPolicy } from "./claim-policy.ts";
import { parseHosts, renderHosts } from "./hosts-text.ts";
import { Plan } from "./plan.ts";
import { PublishedNames } from "./published-names.ts";
import type { Claim } from "./types.ts";

// Tests the way from claims to text.

const rules = { allowDomains: [], denyDomains: [], namespaces: [], denyNamespaces: [], maxNamesPerNamespace: 20 };
/** Only RFC 1123 names are allowed. The comment is for wildcards. */
const LINE = /^(?:198\.51\.100\.9 (?!\*)|#wildcard 198\.51\.100\.9 \*\.)[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/;

function publish(objects: ReadonlyArray<readonly [object: string, claims: readonly Claim[]]>): string {
  const plan = new Plan(createClaimPolicy(rules, undefined), rules.maxNamesPerNamespace);
  for (const [object, claims] of objects) plan.set(object, claims);
  const published = new PublishedNames({ vanishMs: 60, holdMs: 300 });
  for (const [name, planned] of plan.takeChanges())
    if (planned !== undefined) published.want(name, { addresses: ["198.51.100.9"] });
  const names = [...published.settle(0)].sort();
  return renderHosts(names.map((name) => ({ name, addresses: published.lineOf(name)?.addresses ?? [] })));
}

function assertClean(text: string): void {
  for (const line of text.split("\n").slice(0, -1)) assert.match(line, LINE);
}

test("property: for any input of tenants, the text has only well-formed lines, and every name to be mapped", () => {
  fc.assert(
    fc.property(
      fc.array(anyNames, { maxLength: 20 }),
      fc.uniqueArray(goodNames, { maxLength: 20 }),
      (hostile, good) => {
        const text = publish([
          ["evil/web", hostile.map((hostname) => claimOf(hostname, "evil/web", { created: "2020-01-01T00:00:00Z" }))],
          ["shop/web", good.map((hostname) => claimOf(hostname, "shop/web"))],
        ]);
        assertClean(text);
        const names = parseHosts(text);
        for (const name of good) assert.ok(names.has(name), name);
      },
    ),
    { numRuns: 1_000 },
  );
});

test("property: the order of objects does not change the text", () => {
  const object = fc.tuple(
    fc.constantFrom("a", "b", "c"),
    fc.nat(20),
    fc.array(
      fc.constantFrom("a", "b", "c", "d", "e").map((label) => `${label}.example.com`),
      { maxLength: 3 },
    ),
    fc.constantFrom("2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
  );
  const objects = fc.uniqueArray(object, { selector: ([namespace, number]) => `${namespace}/${number}` });
  fc.assert(
    fc.property(
      objects.chain((all) => fc.tuple(fc.constant(all), fc.shuffledSubarray(all, { minLength: all.length }))),
      ([one, other]) => {
        const [a, b] = [one, other].map((order) =>
          publish(
            order.map(([namespace, number, names, created]) => {
              const key = `${namespace}/web-${number}`;
              return [key, names.map((name) => claimOf(name, key, { created }))];
            }),
          ),
        );
        assert.equal(a, b);
      },
    ),
    { numRuns: 300 },
  );
});
