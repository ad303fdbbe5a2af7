import assert from "node:assert/strict";
import { test } from "node:test";
import type { Claim } from "#hostmap/types.ts";
import { claimOf } from "#test/arbitraries.ts";
import { fakeAddressBook, NO_TOOLS } from "#test/fakes/address-book.ts";
import type { ClaimSink, Source } from "../sources/types.ts";
import { verifiedSource } from "./verified-source.ts";
import { DnsVerifier } from "./verifier.ts";

const LB = ["203.0.113.9"];

/** A verifier with configured DNS answers, and the claims of the source. */
function rig(mode: "warn" | "enforce") {
  const book = fakeAddressBook({});
  const decisions = new Map<string, readonly string[]>();
  const expected = new Map<string, string>();
  const verifier = new DnsVerifier({
    lookup: async () => assert.fail("no test waits for DNS"),
    book,
    tools: NO_TOOLS,
    mode,
    now: () => 0,
    log: { debug() {}, info() {}, warn() {}, error() {} },
  });
  let onDecision: (name: string) => void = () => {};
  verifier.start = (given) => {
    onDecision = given;
  };
  verifier.expect = (name, all) => {
    const addresses = all.flatMap(({ publicAddresses }) => publicAddresses);
    expected.set(name, [...new Set(addresses)].join());
  };
  verifier.forget = (name) => void expected.delete(name);
  verifier.decisionOf = (name, claim) => {
    const found = decisions.get(name);
    const addresses = claim?.publicAddresses ?? [];
    if (found === undefined) return "unknown";
    return addresses.some((each) => found.includes(each)) ? "verified" : { code: "dns-elsewhere", text: "elsewhere" };
  };
  let sink: ClaimSink = () => {};
  const inner: Source = {
    start(given) {
      sink = given;
    },
    state: () => [],
    stop: async () => {},
  };
  const source = verifiedSource(inner, { verifier, mode, book, isWithinQuota: () => true });
  const reported: string[] = [];
  const claims = new Map<string, readonly Claim[]>();
  source.start(
    (object, objectClaims) => {
      reported.push(object);
      claims.set(object, objectClaims);
    },
    () => {},
  );
  const targets = (object: string) =>
    (claims.get(object) ?? []).map(({ target }) => (typeof target === "string" ? target : target.code));
  return {
    set: (object: string, objectClaims: readonly Claim[]) => sink(object, objectClaims),
    decisions,
    expected,
    onDecision: (name: string) => onDecision(name),
    reported,
    targets,
  };
}

const claim = (name: string, addresses = LB, target: Claim["target"] = "edge"): Claim => ({
  ...claimOf(name, "shop/x", { target }),
  publicAddresses: addresses,
});

test("warn: claims pass unchanged, and names are verified", () => {
  const { set, expected, onDecision, reported, targets } = rig("warn");
  set("o", [
    claim("A.example.com"),
    claim("*.example.com"),
    claim("bad name"),
    claim("r.example.com", LB, { code: "x", text: "y" }),
  ]);
  assert.deepEqual(
    [...expected],
    [
      ["a.example.com", LB.join()],
      ["*.example.com", LB.join()],
    ],
  );
  assert.deepEqual(targets("o"), ["edge", "edge", "edge", "x"]);
  onDecision("a.example.com");
  assert.deepEqual(reported, ["o"]);
});

test("enforce: a claim has its target only while its name resolves to the load balancer", () => {
  const { set, decisions, onDecision, reported, targets } = rig("enforce");
  set("o", [claim("a.example.com"), claim("b.example.com"), claim("*.example.com")]);
  set("other", [claim("c.example.com")]);
  assert.deepEqual(targets("o"), ["dns-not-verified", "dns-not-verified", "dns-not-verified"]);
  decisions.set("a.example.com", LB);
  reported.length = 0;
  onDecision("a.example.com");
  assert.deepEqual([reported, targets("o")], [["o"], ["edge", "dns-not-verified", "dns-not-verified"]]);
  decisions.set("a.example.com", ["198.51.100.1"]);
  decisions.set("*.example.com", ["198.51.100.1"]);
  onDecision("a.example.com");
  onDecision("*.example.com");
  assert.deepEqual(targets("o"), ["dns-elsewhere", "dns-not-verified", "dns-elsewhere"]);
});

test("enforce: if two objects claim a name, the one whose load balancer the name resolves to wins", () => {
  const { set, decisions, onDecision, targets, expected } = rig("enforce");
  set("old", [claim("a.example.com", ["198.51.100.1"], "old")]);
  set("new", [claim("a.example.com", LB, "new")]);
  assert.equal(expected.get("a.example.com"), `198.51.100.1,${LB}`);
  decisions.set("a.example.com", LB);
  onDecision("a.example.com");
  assert.deepEqual([targets("old"), targets("new")], [["dns-elsewhere"], ["new"]]);
});

test("a name is verified while any object claims it", () => {
  const { set, expected } = rig("warn");
  set("one", [claim("a.example.com")]);
  set("two", [claim("a.example.com", ["2001:db8::9"])]);
  set("one", [claim("b.example.com")]);
  assert.deepEqual(
    [...expected],
    [
      ["a.example.com", "2001:db8::9"],
      ["b.example.com", LB.join()],
    ],
  );
  set("two", []);
  set("one", []);
  assert.equal(expected.size, 0);
});
