import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import { Plan } from "#hostmap/plan.ts";
import { claimOf } from "#test/arbitraries.ts";
import { fakeAddressBook } from "#test/fakes/address-book.ts";
import { verifierRig } from "#test/fakes/verifier-rig.ts";
import type { ClaimSink } from "../sources/types.ts";
import { type VerifyMode, verifiedSource } from "./verified-source.ts";

// Only names within the quota of their namespace are looked up.

const LB = "203.0.113.9";
const CDN = "198.51.100.1";
const QUOTA = 10;
const RULES = { allowDomains: [], denyDomains: [], namespaces: [], denyNamespaces: [], maxNamesPerNamespace: QUOTA };

/** A plan with verified claims. `asked` has the names that were looked up since the last call. */
function rig(t: TestContext, mode: VerifyMode) {
  const addresses = { targets: { edge: [LB] } };
  const { verifier, records, asked, pass, state } = verifierRig(t, { mode, addresses });
  const plan = new Plan(createClaimPolicy(RULES, undefined), QUOTA);
  const book = fakeAddressBook(addresses);
  let report: ClaimSink = () => {};
  const inner = {
    start(sink: ClaimSink, onSynced: () => void) {
      report = sink;
      onSynced();
    },
    state: () => [],
    stop: async () => {},
  };
  const isWithinQuota = (namespace: string, name: string) => plan.isWithinQuota(namespace, name);
  const source = verifiedSource(inner, { verifier, mode, book, isWithinQuota });
  source.start(
    (object, claims) => {
      plan.set(object, claims);
      plan.takeChanges();
    },
    () => {},
  );
  t.after(() => source.stop());
  const claim = (object: string, names: readonly string[], day = 1) => {
    const created = `2026-01-0${day}T00:00:00Z`;
    const claims = names.map((name) => claimOf(name, object, { target: "edge", created }));
    report(object, claims);
  };
  return {
    plan,
    records,
    state,
    claim,
    pass: async (ms: number) => {
      await pass(ms);
      plan.takeChanges();
    },
    asked: () => [...new Set(asked.splice(0).map((one) => one.slice(0, one.indexOf("/"))))].sort(),
    codes: (object: string) =>
      [...plan.decisionsOf(object)].map(({ decision }) => (decision.mapped ? "mapped" : decision.reason.code)),
  };
}

const names = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}.example.com`);

for (const mode of ["auto", "warn", "enforce"] as const) {
  for (const [where, address] of [
    ["there", LB],
    ["elsewhere", CDN],
  ] as const) {
    test(`${mode}: of 40 names that lead ${where}, the quota's are looked up, and a neighbour's`, async (t) => {
      const { records, claim, pass, asked } = rig(t, mode);
      for (const name of names("n", 40)) records.set(name, [address]);
      claim("tenant/web", names("n", 40));
      claim("shop/web", ["shop.example.com"]);
      await pass(150_000);
      const all = asked();
      assert.ok(all.includes("shop.example.com"));
      // Before the plan has counted them, those look-ups begin for which there is room at once.
      const length = all.length - 1;
      assert.ok(length >= QUOTA && length <= QUOTA + 8, `${length}`);
    });
  }
}

for (const speed of ["fast", "slow"]) {
  test(`with a ${speed} DNS, a name that gets into the quota is looked up before it is mapped`, async (t) => {
    const { plan, records, claim, pass, asked, codes, state } = rig(t, "auto");
    state.slow = speed === "slow";
    claim("tenant/old", names("old", QUOTA + 1), 1);
    for (const name of names("old", QUOTA + 1)) records.set(name, [LB]);
    await pass(5_000);
    assert.equal(plan.planned.size, QUOTA);
    records.set("young.example.com", [CDN]);
    claim("tenant/young", ["young.example.com"], 2);
    await pass(5_000);
    asked();
    assert.deepEqual(codes("tenant/young"), ["namespace-quota"]);
    state.slow = false;
    await pass(1_000);
    claim("tenant/old", names("old", QUOTA - 1), 1);
    assert.equal(plan.planned.has("young.example.com"), false);
    await pass(5_000);
    assert.ok(asked().includes("young.example.com"));
    assert.deepEqual([codes("tenant/young"), plan.planned.has("young.example.com")], [["dns-elsewhere"], false]);
  });
}
