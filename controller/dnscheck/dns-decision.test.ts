import assert from "node:assert/strict";
import { test } from "node:test";
import { type DnsDecision, decideByDns, type ExpectedClaim } from "./dns-decision.ts";

const LB = "203.0.113.9";
const INTERNAL = "10.1.0.9";
const FRONT = "10.96.0.9";
const CDN = "198.51.100.50";
const EXTERNAL = "198.51.100.7";

interface Given {
  readonly name?: string;
  readonly claim?: Partial<ExpectedClaim>;
  /** The addresses of the claim's target, or of the target of its class. */
  readonly expected?: readonly string[];
  readonly external?: readonly string[];
  /** The target that the name has. It shares the address LB. */
  readonly held?: string;
}

function decide(answers: readonly string[] | undefined, given: Given = {}): DnsDecision {
  const { name = "shop.example.com", claim, expected = [LB], external = [], held } = given;
  const evidence = { name, answers, held, isOwnAddress: (address: string) => address === FRONT };
  const locations = {
    addressesOf: (target: string) => (target === "" ? [] : expected),
    externalIPsOf: () => external,
    targetAt: (address: string, current = "edge") => ({ [LB]: current, [INTERNAL]: "internal" })[address],
  };
  return decideByDns({ target: "edge", publicAddresses: [], ...claim }, evidence, locations);
}

function shown(decision: DnsDecision): string {
  if (typeof decision === "string") return decision;
  if (!("target" in decision)) return decision.code;
  return `${decision.code} ${decision.target}${decision.chosen ? " chosen" : ""}`;
}

const WILDCARD = { name: "*.example.com" };
const CHOSEN = { expected: [LB, FRONT, CDN], external: [FRONT, CDN] };
const SHARED = { claim: { target: "db" }, expected: [LB, CDN] };
const HELD = { claim: { target: undefined }, held: "other" };
const NO_ADDRESS = { expected: [] };
const NO_TARGET = { claim: { target: undefined } };
const BY_CLASS = { claim: { target: undefined, byClass: "edge" }, expected: [EXTERNAL] };
const CASES: ReadonlyArray<readonly [what: string, answers: readonly string[] | undefined, string, Given?]> = [
  ["the target's address", [LB], "verified"],
  ["the target's address beside any other", [CDN, INTERNAL, FRONT, LB], "verified"],
  ["no answer", undefined, "unknown"],
  ["no address", [], "dns-absent"],
  ["no address of a wildcard, below which names may have records", [], "unknown", WILDCARD],
  ["an address of another Service", [INTERNAL], "dns-other-target internal"],
  ["an address of another Service beside an unknown one", [CDN, INTERNAL], "dns-other-target internal"],
  ["an unknown address", [CDN], "dns-elsewhere"],
  ["an unknown address of a wildcard", [CDN], "dns-elsewhere", WILDCARD],
  ["our own address, which a publisher gave to DNS", [FRONT], "unknown"],
  ["our own address beside others", [CDN, FRONT, INTERNAL], "unknown"],
  ["an externalIP", [CDN], "external", CHOSEN],
  ["an externalIP beside the load balancer's address", [CDN, LB], "verified", CHOSEN],
  ["an externalIP that is our own address", [FRONT], "unknown", CHOSEN],
  ["an address that another target has on the ports of HTTP", [LB], "external", SHARED],
  ["such an address beside one that nobody shares", [LB, CDN], "verified", SHARED],
  ["an address that the name's target has as well", [LB], "external", { held: "other" }],
  ["an address of the name's target beside another's", [INTERNAL, LB], "dns-other-target other", HELD],
  ["an address, for a target without one", [CDN], "unknown", NO_ADDRESS],
  ["an address of a Service, without a target", [CDN, INTERNAL], "dns-other-target internal", NO_TARGET],
  ["an unknown address, without a target", [CDN], "nowhere", NO_TARGET],
  ["no address, without a target", [], "unknown", NO_TARGET],
  ["no answer, without a target", undefined, "unknown", NO_TARGET],
  ["our own address beside a Service's, without a target", [FRONT, LB], "unknown", NO_TARGET],
  ["an externalIP of the class's target", [EXTERNAL], "dns-other-target edge chosen", BY_CLASS],
  ["an externalIP, without a class", [EXTERNAL], "nowhere", NO_TARGET],
  ["an externalIP of the class's target, and a Service's address", [EXTERNAL, LB], "dns-other-target edge", BY_CLASS],
];
for (const [what, answers, expected, given] of CASES) {
  test(`DNS has ${what}: ${expected}`, () => {
    assert.equal(shown(decide(answers, given)), expected);
  });
}

test("the text lists four addresses", () => {
  const answers = [1, 2, 3, 4, 5].map((last) => `198.51.100.${last}`);
  const decision = decide(answers, { expected: [LB, "2001:db8::9"] });
  const text =
    'the cluster\'s DNS resolves "shop.example.com" to 198.51.100.1, 198.51.100.2, 198.51.100.3, 198.51.100.4, not ' +
    `to its load balancer (${LB}, 2001:db8::9)`;
  assert.deepEqual(decision, { code: "dns-elsewhere", text });
});
