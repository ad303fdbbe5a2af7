import assert from "node:assert/strict";
import { test } from "node:test";
import { type DnsEvidence, decideByDns } from "./dns-decision.ts";

const LB = "203.0.113.9";
const INTERNAL = "10.1.0.9";
const FRONT = "10.96.0.9";
const CDN = "198.51.100.50";

function decide(answers: DnsEvidence["answers"], given: Partial<DnsEvidence> = {}) {
  const decision = decideByDns({
    name: "shop.example.com",
    answers,
    addressesOfTarget: [LB],
    externalIPs: [],
    targetOfAddress: (address) => ({ [LB]: "edge", [INTERNAL]: "internal" })[address],
    isOwnAddress: (address) => address === FRONT,
    ...given,
  });
  if (typeof decision === "string") return decision;
  return "target" in decision ? `${decision.code} ${decision.target}` : decision.code;
}

test("one address of the target verifies the name, whatever other addresses it has", () => {
  assert.equal(decide([LB]), "verified");
  for (const other of [CDN, INTERNAL, FRONT]) assert.equal(decide([other, LB]), "verified");
});

test("a missing answer is no evidence; an absent name is evidence, except for a wildcard", () => {
  assert.equal(decide(undefined), "unknown");
  assert.equal(decide([]), "dns-absent");
  assert.equal(decide([], { name: "*.example.com" }), "unknown");
});

test("an address of another Service leads to that target, even beside unknown addresses", () => {
  assert.equal(decide([INTERNAL]), "dns-other-target internal");
  assert.equal(decide([CDN, INTERNAL]), "dns-other-target internal");
});

test("our own addresses are no evidence, because a publisher gave them to DNS", () => {
  assert.equal(decide([FRONT]), "unknown");
  assert.equal(decide([CDN, FRONT]), "unknown");
  assert.equal(decide([FRONT, INTERNAL]), "unknown");
});

test("`externalIPs` confirm the target, but do not verify the name; with our own address they are no evidence", () => {
  const external = { addressesOfTarget: [LB, FRONT, CDN], externalIPs: [FRONT, CDN] };
  assert.equal(decide([CDN], external), "external");
  assert.equal(decide([CDN, LB], external), "verified");
  assert.equal(decide([FRONT], external), "unknown");
});

test("a target without addresses cannot be compared", () => {
  for (const answers of [[LB], [CDN], []]) assert.equal(decide(answers, { addressesOfTarget: [] }), "unknown");
});

test("any other address leads elsewhere, also for a wildcard; the text lists four addresses", () => {
  assert.equal(decide([CDN]), "dns-elsewhere");
  assert.equal(decide([CDN], { name: "*.example.com" }), "dns-elsewhere");
  const answers = [1, 2, 3, 4, 5].map((last) => `198.51.100.${last}`);
  const decision = decideByDns({
    name: "shop.example.com",
    answers,
    addressesOfTarget: [LB, "2001:db8::9"],
    externalIPs: [],
    targetOfAddress: () => undefined,
    isOwnAddress: () => false,
  });
  const text =
    'the cluster\'s DNS resolves "shop.example.com" to 198.51.100.1, 198.51.100.2, 198.51.100.3, 198.51.100.4, not ' +
    `to its load balancer (${LB}, 2001:db8::9)`;
  assert.deepEqual(decision, { code: "dns-elsewhere", text });
});
