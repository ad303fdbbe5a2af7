import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import { renderHosts } from "#hostmap/hosts-text.ts";
import { Plan } from "#hostmap/plan.ts";
import { claimOf } from "#test/arbitraries.ts";
import { fakeAddressBook } from "#test/fakes/address-book.ts";
import { turns } from "#test/fakes/stopped-time.ts";
import { verifierRig } from "#test/fakes/verifier-rig.ts";
import { LeaderMap } from "../leader-map.ts";
import type { ClaimSink } from "../sources/types.ts";
import { type VerifyMode, verifiedSource } from "./verified-source.ts";

// A publisher gives the map to the cluster's DNS. The controller asks that DNS about the names of the map.

const LB = "203.0.113.9";
const FRONT = "10.96.0.9";
const NAMES = ["shop.example.com", "*.wild.example.com"];
const MODES: readonly VerifyMode[] = ["auto", "enforce", "warn"];
const RULES = { allowDomains: [], denyDomains: [], namespaces: [], denyNamespaces: [], maxNamesPerNamespace: 100 };
const REMOVAL = { vanishMs: 60_000, guardNames: 10, holdMs: 300_000 };
const TARGETS = [{ name: "edge", clusterIPs: [FRONT] }];
const HOUR_S = 3_600;
/** Delay from a change of the map to the answers of DNS: the publisher's interval, the kubelet, and a reload. */
const PUBLISHED_S = 45;
/** After this time the answers no longer change. */
const SETTLED_S = 300;

/** A cluster with one Ingress, a controller, and a DNS that answers with the map as it was PUBLISHED_S ago. */
function rig(t: TestContext, mode: VerifyMode, before: readonly string[] = []) {
  const addresses = { targets: { edge: [LB] }, own: [FRONT] };
  const { verifier, records, state } = verifierRig(t, { mode, addresses });
  state.ttl = 5;
  const asked = (name: string) => name.replace("*", "switchback-dns-check");
  for (const name of NAMES) records.set(asked(name), [before.length > 0 ? FRONT : LB]);
  const plan = new Plan(createClaimPolicy(RULES, undefined), RULES.maxNamesPerNamespace);
  const published = new Map(before.map((name) => [name, { name, addresses: [FRONT], holder: "shop" }]));
  const map = new LeaderMap(REMOVAL, plan, published, TARGETS);
  const source = verifiedSource(
    {
      start(sink: ClaimSink, onSynced: () => void) {
        const claims = NAMES.map((name) => claimOf(name, "shop/web", { target: "edge" }));
        sink(
          "web",
          claims.map((claim) => ({ ...claim, publicAddresses: [LB] })),
        );
        onSynced();
      },
      state: () => [],
      stop: async () => {},
    },
    { verifier, mode, book: fakeAddressBook(addresses), isWithinQuota: () => true },
  );
  source.start(
    (object, claims) => plan.set(object, claims),
    () => {},
  );
  t.after(() => source.stop());
  map.update(plan.takeChanges(state.now), TARGETS, state.now);
  map.releaseUnplanned(state.now);
  // Before the first second, DNS answers with the previously published names.
  const history = [before.map((name) => ` ${name}`).join("")];
  let changes = 0;
  const reconcile = () => {
    map.update(plan.takeChanges(state.now), TARGETS, state.now);
    map.settle(state.now);
    return renderHosts(map.names.lines.values());
  };
  const second = async () => {
    state.now += 1_000;
    t.mock.timers.tick(100);
    await turns(4);
    const text = reconcile();
    if (text !== history.at(-1)) changes += 1;
    history.push(text);
    const answered = history.at(-PUBLISHED_S) ?? history[0] ?? "";
    for (const name of NAMES) records.set(asked(name), [answered.includes(` ${name}`) ? FRONT : LB]);
  };
  return { second, changes: () => changes, text: () => history.at(-1) ?? "", verifier };
}

for (const mode of MODES) {
  test(`${mode}: an hour of published names changes nothing and causes no mismatch`, async (t) => {
    const { second, changes, text, verifier } = rig(t, mode);
    for (let at = 0; at < SETTLED_S; at += 1) await second();
    for (const name of NAMES) assert.ok(text().includes(` ${name}`), text());
    const before = changes();
    for (let at = 0; at < HOUR_S; at += 1) await second();
    assert.equal(changes() - before, 0);
    assert.deepEqual([...verifier.mismatches()], []);
  });
}

for (const mode of MODES) {
  test(`${mode}: a new controller keeps the published names, though DNS answers with our addresses`, async (t) => {
    const { second, text } = rig(t, mode, NAMES);
    for (let at = 0; at < SETTLED_S; at += 1) {
      await second();
      for (const name of NAMES) assert.ok(text().includes(` ${name}`), `${name} is gone after ${at} s`);
    }
  });
}
