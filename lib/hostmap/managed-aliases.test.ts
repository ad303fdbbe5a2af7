import assert from "node:assert/strict";
import { test } from "node:test";
import { describeManaged, splitAliases, withoutManaged } from "./managed-aliases.ts";
import type { HostAlias } from "./types.ts";

const [V4, V6] = ["198.51.100.9", "2001:db8::9"];
const alias = (ip: string, ...hostnames: string[]): HostAlias => ({ ip, hostnames });
const MANAGED = [alias(V4, "a.com", "b.com"), alias(V4, "c.com"), alias(V6, "a.com")];
const USER = [alias("192.0.2.1", "own.com"), alias(V4, "mine.com")];

test("managed aliases are described by the first address, their number and a digest", () => {
  assert.match(describeManaged(MANAGED), /^198\.51\.100\.9 x3 \([0-9a-f]{12}\)$/);
  assert.equal(describeManaged([]), "none");
  const [one, two] = [[alias(V4, "a.com", "b.com")], [alias(V4, "a.com"), alias(V4, "b.com")]].map(describeManaged);
  assert.match(one ?? "", / x1 /);
  assert.match(two ?? "", / x2 /);
  assert.notEqual(describeManaged([alias(V4, "a.com")]), describeManaged([alias(V4, "b.com")]));
});

test("managed aliases are found wherever another webhook moved them, and the user's aliases keep their order", () => {
  const annotation = describeManaged(MANAGED);
  for (let at = 0; at <= USER.length; at += 1) {
    const aliases = USER.toSpliced(at, 0, ...MANAGED);
    assert.deepEqual(splitAliases(aliases, annotation), { userAliases: USER, managedAliases: MANAGED });
    assert.deepEqual(withoutManaged(aliases, annotation), USER);
  }
});

test("of two equal runs, the last one is the managed one", () => {
  const twice = [alias(V4, "a.com"), alias("192.0.2.1", "x.com"), alias(V4, "a.com")];
  const { userAliases } = splitAliases(twice, describeManaged([alias(V4, "a.com")]));
  assert.deepEqual(
    userAliases.map(({ ip }) => ip),
    [V4, "192.0.2.1"],
  );
});

const GOOD = describeManaged(MANAGED);
for (const [what, annotation] of [
  ["no annotation", undefined],
  ["an empty one", ""],
  ["none", "none"],
  ["another digest", GOOD.replace(/\(.*/, "(000000000000)")],
  ["a shorter digest", GOOD.replace(/.\)$/, ")")],
  ["text before the list", `x ${GOOD}`],
  ["a later format", `v2 ${GOOD}`],
  ["text after the digest", `${GOOD} x`],
  ["a count of nothing", GOOD.replace("x3", "x0")],
  ["a count of seven digits", GOOD.replace("x3", "x3000000")],
  ["another count", GOOD.replace("x3", "x2")],
  ["no count", GOOD.replace(" x3", "")],
  ["text after a count", GOOD.replace("x3", "x3y")],
  ["another first address", GOOD.replace(V4, "198.51.100.8")],
] as const) {
  test(`with ${what} no alias counts as managed`, () => {
    const aliases = [...USER, ...MANAGED];
    assert.deepEqual(splitAliases(aliases, annotation), { userAliases: aliases, managedAliases: [] });
  });
}

test("a pod without aliases has neither kind; one that lost a managed alias keeps the other aliases", () => {
  assert.deepEqual(splitAliases([], GOOD), { userAliases: [], managedAliases: [] });
  const rest = MANAGED.slice(0, 2);
  assert.deepEqual(splitAliases(rest, GOOD), { userAliases: rest, managedAliases: [] });
});

test("only the last 64 positions at which the aliases could begin are compared", () => {
  const managed = [alias(V4, "managed.com")];
  const others = (count: number) => Array.from({ length: count }, (_, index) => alias(V4, `n${index}.com`));
  const found = (count: number) =>
    splitAliases([...managed, ...others(count)], describeManaged(managed)).managedAliases;
  assert.deepEqual([found(63), found(64)], [managed, []]);
});
