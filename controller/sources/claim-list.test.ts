import assert from "node:assert/strict";
import { test } from "node:test";
import { ClaimList, MAX_NAMES_PER_OBJECT } from "./claim-list.ts";
import type { RoutingHints } from "./types.ts";

const OBJECT = { ref: { kind: "Widget", namespace: "shop", name: "web" }, created: "2026-01-01T00:00:00Z" };
const hints = (className: string): RoutingHints => ({ className, addresses: [], admitted: true });
const REFUSED = { code: "ignored", text: "why" };
const [A, B] = [hints("a"), hints("b")];
/** The content of a claim list to which these names and hints were added. */
function listed(...added: (readonly [name: string, of: RoutingHints | typeof REFUSED])[]) {
  const claims = new ClaimList(OBJECT);
  for (const [name, of] of added) claims.add(name, of);
  return claims.all.map(({ hostname, hints: of }) => [hostname, "code" in of ? of.code : of.className]);
}

test("a name counts once per hints, whatever its case; the first spelling stays", () => {
  assert.deepEqual(listed(["A.com", A], ["a.com", A], ["b.com", A]), [
    ["A.com", "a"],
    ["b.com", "a"],
  ]);
  assert.deepEqual(listed(["a.com", A], ["b.com", A], ["a.com", B], ["a.com", A]), [
    ["a.com", "a"],
    ["a.com", "b"],
    ["b.com", "a"],
  ]);
});

test("hints replace a reason, whichever comes first; of two reasons the first stays", () => {
  const expected = [["a.com", "a"]];
  assert.deepEqual(listed(["a.com", REFUSED], ["a.com", A]), expected);
  assert.deepEqual(listed(["a.com", A], ["a.com", REFUSED]), expected);
  assert.deepEqual(listed(["a.com", REFUSED], ["a.com", { code: "other", text: "" }]), [["a.com", "ignored"]]);
});

test("names beyond the limit are counted, and only the first of them is listed", () => {
  const claims = new ClaimList(OBJECT);
  const add = (from: number, to: number) => {
    for (let index = from; index < to; index += 1) claims.add(`n${index}.com`, A);
  };
  add(0, MAX_NAMES_PER_OBJECT);
  assert.equal(claims.all.length, 1_000);
  add(0, MAX_NAMES_PER_OBJECT);
  claims.add("n0.com", B);
  assert.equal(claims.all.length, 1_001, "more hints of a name that is there");
  add(1_000, 1_003);
  assert.equal(claims.all.length, 1_002);
  assert.deepEqual(claims.all.at(-1), {
    hostname: "n1000.com",
    from: OBJECT.ref,
    created: OBJECT.created,
    hints: { code: "too-many-names", text: "the Widget has more than 1000 names; 3 are ignored" },
  });
});
