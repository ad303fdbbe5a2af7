import assert from "node:assert/strict";
import { test } from "node:test";
import type { Claim } from "../../hostmap/types.ts";
import { claimOf } from "../../test/arbitraries.ts";
import type { ClaimSink, Source } from "../sources/types.ts";
import { verifiedSource } from "./verified-source.ts";
import { DnsVerifier } from "./verifier.ts";

const LB = ["203.0.113.9"];

/** A verifier that is told what DNS says, and the claims that come out of the source. */
function rig(enforce: boolean) {
  const verdicts = new Map<string, readonly string[]>();
  const expected = new Map<string, string>();
  const verifier = new DnsVerifier({
    lookup: async () => assert.fail("no test waits for DNS"),
    now: () => 0,
    log: { debug() {}, info() {}, warn() {}, error() {} },
    onVerdict: () => {},
  });
  verifier.start = () => {};
  verifier.expect = (name, addresses) => void expected.set(name, addresses.join());
  verifier.forget = (name) => void expected.delete(name);
  verifier.verdictOf = (name, addresses = []) => {
    const found = verdicts.get(name);
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
  const { source, onVerdict } = verifiedSource(inner, verifier, enforce);
  const told: string[] = [];
  const claims = new Map<string, readonly Claim[]>();
  source.start(
    (object, own) => {
      told.push(object);
      claims.set(object, own);
    },
    () => {},
  );
  const targets = (object: string) =>
    (claims.get(object) ?? []).map(({ target }) => (typeof target === "string" ? target : target.code));
  return {
    set: (object: string, own: readonly Claim[]) => sink(object, own),
    verdicts,
    expected,
    onVerdict,
    told,
    targets,
  };
}

const claim = (name: string, addresses = LB, target: Claim["target"] = "edge"): Claim => ({
  ...claimOf(name, "shop/x", { target }),
  publicAddresses: addresses,
});

test("warn: claims pass as they are, and names are followed", () => {
  const { set, expected, onVerdict, told, targets } = rig(false);
  set("o", [
    claim("A.example.com"),
    claim("*.example.com"),
    claim("bad name"),
    claim("r.example.com", LB, { code: "x", text: "y" }),
  ]);
  assert.deepEqual([...expected], [["a.example.com", LB.join()]]);
  assert.deepEqual(targets("o"), ["edge", "edge", "edge", "x"]);
  onVerdict("a.example.com");
  assert.deepEqual(told, ["o"]);
});

test("enforce: a name waits until DNS leads it there, and is taken back when it no longer does", () => {
  const { set, verdicts, onVerdict, told, targets } = rig(true);
  set("o", [claim("a.example.com"), claim("b.example.com"), claim("*.example.com")]);
  set("other", [claim("c.example.com")]);
  assert.deepEqual(targets("o"), ["dns-not-verified", "dns-not-verified", "edge"]);
  verdicts.set("a.example.com", LB);
  told.length = 0;
  onVerdict("a.example.com");
  assert.deepEqual([told, targets("o")], [["o"], ["edge", "dns-not-verified", "edge"]]);
  verdicts.set("a.example.com", ["198.51.100.1"]);
  onVerdict("a.example.com");
  assert.deepEqual(targets("o"), ["dns-elsewhere", "dns-not-verified", "edge"]);
});

test("enforce: of two claims for one name the one counts whose load balancer DNS leads to", () => {
  const { set, verdicts, onVerdict, targets, expected } = rig(true);
  set("old", [claim("a.example.com", ["198.51.100.1"], "old")]);
  set("new", [claim("a.example.com", LB, "new")]);
  assert.equal(expected.get("a.example.com"), `198.51.100.1,${LB}`);
  verdicts.set("a.example.com", LB);
  onVerdict("a.example.com");
  assert.deepEqual([targets("old"), targets("new")], [["dns-elsewhere"], ["new"]]);
});

test("a name is followed while any object claims it", () => {
  const { set, expected } = rig(false);
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
