import assert from "node:assert/strict";
import { test } from "node:test";
import { BACKDATE_MS, type CertFacts, type LeafFacts, planRotation, type RotationState, renewAt } from "./rotation.ts";

const MINUTE = 60_000;
const DAY = 86_400_000;
const NOW = Date.UTC(2026, 0, 1);
const overlapMs = 10 * MINUTE;

const cert = (id: string, issued: number, days: number): CertFacts => ({
  id,
  notBefore: issued - BACKDATE_MS,
  notAfter: issued + days * DAY,
});
const leafOf = (signedBy: string | undefined, issued = NOW - DAY, days = 90): LeafFacts => ({
  ...cert("leaf", issued, days),
  signedBy,
  coversNames: true,
});

const CA = cert("ca", NOW - DAY, 3650);
const STEADY: RotationState = {
  signer: CA,
  next: undefined,
  nextSince: undefined,
  previous: [],
  previousSince: undefined,
  leaf: leafOf("ca"),
  leafFault: undefined,
  fault: undefined,
  bundle: "current",
};
const OLD_CA = cert("ca", NOW - 2500 * DAY, 3650);
const NEXT = cert("next", NOW, 3650);
const EXPIRED_CA = cert("ca", NOW - 11 * DAY, 10);
const LOST = { code: "ca-secret-lost", text: "gone" };
const BROKEN = { code: "leaf-broken", text: "broken" };

const NO_CA = { signer: undefined, next: undefined, leaf: undefined, fault: LOST };
const WAITING = { signer: OLD_CA, next: NEXT };
const LOST_SIGNER = { signer: undefined, next: NEXT, previous: [CA] };
const SWITCHED = { signer: NEXT, previous: [OLD_CA], leaf: leafOf("next", NOW) };

const CASES: readonly (readonly [string, Partial<RotationState>, string, string])[] = [
  ["all is well", {}, "wait", "steady"],
  ["nothing exists yet", { ...NO_CA, fault: undefined }, "create-signer", "first-start"],
  [
    "nothing exists, and no webhook configuration",
    { ...NO_CA, fault: undefined, bundle: "absent" },
    "create-signer",
    "first-start",
  ],
  [
    "nothing exists, and the configuration cannot be read",
    { ...NO_CA, bundle: "unknown" },
    "wait",
    "bundle-unreadable",
  ],
  [
    "the CA is lost while its leaf serves",
    { ...NO_CA, previous: [CA], leaf: leafOf("ca") },
    "create-next",
    "ca-secret-lost",
  ],
  [
    "the CA is lost, and its known certificates have expired",
    { ...NO_CA, previous: [EXPIRED_CA] },
    "create-signer",
    "ca-secret-lost",
  ],
  ["part of the CA Secret is broken", { fault: { code: "next-broken", text: "x" } }, "repair", "next-broken"],
  [
    "partly broken, but the trusted CAs cannot be read",
    { fault: LOST, bundle: "unknown" },
    "wait",
    "bundle-unreadable",
  ],
  ["the bundle was wiped", { bundle: "behind" }, "publish", "bundle-behind"],
  ["the bundle was wiped, and a leaf is due", { bundle: "behind", leaf: undefined }, "publish", "bundle-behind"],
  ["the leaf was deleted", { leaf: undefined }, "issue-leaf", "leaf-missing"],
  ["the leaf is broken", { leaf: undefined, leafFault: BROKEN }, "issue-leaf", "leaf-broken"],
  [
    "the leaf was deleted, and the bundle cannot be written",
    { leaf: undefined, bundle: "unknown" },
    "issue-leaf",
    "leaf-missing",
  ],
  ["no trusted CA signed the leaf", { leaf: leafOf(undefined) }, "issue-leaf", "leaf-of-other-ca"],
  ["the cluster domain changed", { leaf: { ...leafOf("ca"), coversNames: false } }, "issue-leaf", "leaf-names"],
  ["the leaf has expired", { leaf: leafOf("ca", NOW - 91 * DAY) }, "issue-leaf", "leaf-expired"],
  ["the leaf is not valid yet", { leaf: leafOf("ca", NOW + DAY) }, "issue-leaf", "leaf-not-yet-valid"],
  ["59 of 90 days of the leaf have passed", { leaf: leafOf("ca", NOW - 59 * DAY) }, "wait", "steady"],
  ["60 of 90 days of the leaf have passed", { leaf: leafOf("ca", NOW - 60 * DAY) }, "issue-leaf", "leaf-due"],
  ["two thirds of the CA's lifetime have passed", { signer: OLD_CA }, "create-next", "ca-due"],
  [
    "the CA is due while an older one is still trusted",
    { signer: OLD_CA, previous: [CA], previousSince: NOW },
    "wait",
    "after-switch",
  ],
  ["the CA is not valid yet", { signer: cert("ca", NOW + DAY, 3650) }, "create-next", "ca-not-yet-valid"],
  [
    "the CA has expired",
    { signer: EXPIRED_CA, leaf: undefined, previous: [OLD_CA], previousSince: NOW },
    "create-next",
    "ca-expired",
  ],
  ["the next CA is not in the bundle yet", { ...WAITING, bundle: "behind" }, "publish", "bundle-behind"],
  ["the next CA is in the bundle", WAITING, "stamp-next", "next-published"],
  ["the timestamp is in the future", { ...WAITING, nextSince: NOW + 1 }, "stamp-next", "next-published"],
  ["the overlap is nearly over", { ...WAITING, nextSince: NOW - overlapMs + 1 }, "wait", "before-switch"],
  ["the overlap is over", { ...WAITING, nextSince: NOW - overlapMs }, "promote", "overlap-over"],
  [
    "the overlap is over, but the bundle was wiped",
    { ...WAITING, nextSince: NOW - overlapMs, bundle: "behind" },
    "publish",
    "bundle-behind",
  ],
  [
    "the overlap is over, but the bundle is unknown",
    { ...WAITING, nextSince: NOW - overlapMs, bundle: "unknown" },
    "wait",
    "bundle-unreadable",
  ],
  [
    "the overlap is over, but the configuration is gone",
    { ...WAITING, nextSince: NOW - overlapMs, bundle: "absent" },
    "wait",
    "bundle-absent",
  ],
  [
    "a leaf is due before the switch",
    { ...WAITING, nextSince: NOW, leaf: leafOf("ca", NOW - 61 * DAY) },
    "issue-leaf",
    "leaf-due",
  ],
  [
    "the leaf is deleted before the switch: the old CA issues one",
    { ...WAITING, nextSince: NOW - MINUTE, leaf: undefined },
    "issue-leaf",
    "leaf-missing",
  ],
  [
    "the lost CA's leaf serves: the switch waits in full",
    { ...LOST_SIGNER, nextSince: NOW - MINUTE },
    "wait",
    "before-switch",
  ],
  [
    "CA and leaf are lost: half a minute",
    { ...LOST_SIGNER, leaf: undefined, nextSince: NOW - 30_000 },
    "promote",
    "overlap-over",
  ],
  [
    "CA and leaf are lost: not sooner",
    { ...LOST_SIGNER, leaf: undefined, nextSince: NOW - 29_999 },
    "wait",
    "before-switch",
  ],
  [
    "CA and leaf are lost, and there is no webhook configuration",
    { ...LOST_SIGNER, leaf: undefined, bundle: "absent" },
    "promote",
    "no-caller",
  ],
  [
    "CA and leaf have expired: no wait",
    { signer: EXPIRED_CA, next: NEXT, nextSince: NOW, leaf: leafOf("ca", NOW - 11 * DAY, 10) },
    "promote",
    "nothing-to-protect",
  ],
  [
    "expired, and the bundle cannot be written",
    { signer: EXPIRED_CA, next: NEXT, leaf: undefined, bundle: "unknown" },
    "promote",
    "nothing-to-protect",
  ],
  [
    "the next CA signs, but the old one signed the leaf",
    { ...SWITCHED, leaf: leafOf("ca") },
    "issue-leaf",
    "leaf-of-other-ca",
  ],
  ["the new leaf is available", SWITCHED, "stamp-previous", "leaf-offered"],
  [
    "the timestamp of the new leaf is in the future",
    { ...SWITCHED, previousSince: NOW + 1 },
    "stamp-previous",
    "leaf-offered",
  ],
  [
    "the overlap of the old CA is nearly over",
    { ...SWITCHED, previousSince: NOW - overlapMs + 1 },
    "wait",
    "after-switch",
  ],
  ["the old CA may be dropped", { ...SWITCHED, previousSince: NOW - overlapMs }, "drop-previous", "overlap-over"],
  [
    "the old CA may be dropped, but its leaf is back",
    { ...SWITCHED, previousSince: NOW - overlapMs, leaf: leafOf("ca") },
    "issue-leaf",
    "leaf-of-other-ca",
  ],
];

for (const [title, change, step, code] of CASES) {
  test(`${title}: ${step} (${code})`, () => {
    const plan = planRotation({ ...STEADY, ...change }, NOW, { overlapMs });
    assert.deepEqual([plan.step, plan.reason.code], [step, code]);
    assert.ok(plan.reason.text.length > 10 || change.fault !== undefined || change.leafFault !== undefined);
  });
}

test("the next turn is when the next step is due, and no later", () => {
  const at = (change: Partial<RotationState>) => planRotation({ ...STEADY, ...change }, NOW, { overlapMs }).at;
  assert.equal(at({}), NOW + DAY, "a day at most");
  const leaf = leafOf("ca", NOW - 59.5 * DAY);
  assert.equal(at({ leaf }), renewAt(leaf));
  assert.equal(at({ ...WAITING, nextSince: NOW - MINUTE }), NOW + 9 * MINUTE);
  assert.equal(at({ ...LOST_SIGNER, leaf: undefined, nextSince: NOW - 10_000 }), NOW + 20_000);
  assert.equal(at({ ...SWITCHED, previousSince: NOW - MINUTE }), NOW + 9 * MINUTE);
  assert.equal(at({ ...WAITING, nextSince: NOW - overlapMs, bundle: "absent" }), NOW + DAY, "no busy loop");
});

test("two thirds of a lifetime are counted from the issuance, also if it is shorter than the backdating", () => {
  assert.equal(renewAt(cert("x", NOW, 90)), NOW + 60 * DAY);
  assert.equal(renewAt(cert("x", NOW, 1 / 1440)), NOW + 40_000);
});
