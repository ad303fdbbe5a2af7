import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { Claim, Reason } from "#hostmap/types.ts";
import { claimOf } from "#test/arbitraries.ts";
import { fakeAddressBook } from "#test/fakes/address-book.ts";
import { verifierRig } from "#test/fakes/verifier-rig.ts";
import type { ClaimSink } from "../sources/types.ts";
import type { HeaderReason } from "../targets/resolver.ts";
import { verifiedSource } from "./verified-source.ts";

const LB = "203.0.113.9";
const INTERNAL = "10.1.0.9";
const FRONT = "10.96.0.9";
const CDN = "198.51.100.50";
const EXTERNAL = "198.51.100.7";
const NAME = "shop.example.com";

/** `policy.verifyDns: auto`: how it changes the claims of objects, with a DNS that the test controls. */
function rig(t: TestContext) {
  const addresses = {
    targets: { edge: [LB], internal: [INTERNAL] } as Record<string, readonly string[]>,
    external: { edge: [EXTERNAL] },
    own: [FRONT],
    against: {} as Record<string, HeaderReason>,
    always: [] as string[],
    isFirstStart: false,
  };
  const { verifier, records, state, pass, asked } = verifierRig(t, { mode: "auto", addresses });
  let report: ClaimSink = () => {};
  let synced = () => {};
  const inner = {
    start: (sink: ClaimSink, onSynced: () => void) => {
      report = sink;
      synced = onSynced;
    },
    state: () => [],
    stop: async () => {},
  };
  let headersChanged = () => {};
  const headers = {
    follow(onChange: () => void) {
      headersChanged = onChange;
    },
  };
  const source = verifiedSource(inner, {
    verifier,
    mode: "auto",
    book: fakeAddressBook(addresses),
    headers,
    isWithinQuota: () => true,
  });
  const claims = new Map<string, readonly Claim[]>();
  source.start(
    (object, all) => claims.set(object, all),
    () => {},
  );
  t.after(() => source.stop());
  const set = (object: string, target = "edge", name = NAME, warning?: Reason) =>
    report(object, [
      { ...claimOf(name, `shop/${object}`, { target }), publicAddresses: [CDN], ...(warning && { warning }) },
    ]);
  /** The target, with `!` if DNS leads there; or the reason, with `?` if it is not final. */
  const result = (object: string) => {
    const [claim] = claims.get(object) ?? [];
    if (claim === undefined) return undefined;
    if (typeof claim.target === "string") return `${claim.target}${claim.verified ? "!" : ""}`;
    return `${claim.target.code}${claim.pending === undefined ? "" : "?"}`;
  };
  /** An object that only lacks evidence. `byClass` is the target of its class. */
  const setLacking = (object: string, name: string, byClass?: string) =>
    report(object, [{ ...claimOf(name, `shop/${object}`, { target: NO_SERVICE }), lacking: { byClass } }]);
  return {
    addresses,
    verifier,
    records,
    state,
    pass,
    asked,
    set,
    setLacking,
    result,
    report,
    claims,
    synced: () => synced(),
    headersChanged: () => headersChanged(),
  };
}

const NO_SERVICE = { code: "no-service", text: "no Service has the address 192.0.2.10 of its status" };

test("the first answer decides whether a new name is mapped, mapped to another Service, or not mapped", async (t) => {
  const { records, pass, set, result, synced } = rig(t);
  synced();
  records.set("a.example.com", [LB]).set("b.example.com", [INTERNAL]).set("c.example.com", [CDN]);
  for (const name of ["a", "b", "c", "d"]) set(name, "edge", `${name}.example.com`);
  assert.equal(result("a"), "dns-pending?");
  await pass(100);
  assert.deepEqual(["a", "b", "c", "d"].map(result), ["edge!", "internal!", "dns-elsewhere?", "edge"]);
});

test("a name that DNS leads to another target gets the port warning of that target", async (t) => {
  const lost = { code: "port-lost", text: "its target internal has no port 80" };
  const { addresses, records, pass, set, claims, synced } = rig(t);
  Object.assign(addresses, { warnings: { internal: lost } });
  synced();
  records.set("a.example.com", [LB]).set("b.example.com", [INTERNAL]);
  const own = { code: "port-lost", text: "its target edge has no port 443" };
  for (const name of ["a", "b"]) set(name, "edge", `${name}.example.com`, own);
  await pass(100);
  assert.deepEqual(
    ["a", "b"].map((object) => claims.get(object)?.[0]?.warning),
    [own, lost],
  );
});

test("a name waits 2 s for its first answer; a late answer still counts", async (t) => {
  const { records, pass, set, result, state, synced } = rig(t);
  synced();
  records.set(NAME, [CDN]);
  state.slow = true;
  set("a");
  await pass(1_900);
  assert.equal(result("a"), "dns-pending?");
  await pass(200);
  assert.equal(result("a"), "edge");
  state.slow = false;
  await pass(100);
  assert.equal(result("a"), "dns-elsewhere?");
});

test("a name is mapped after 2 s if DNS fails", async (t) => {
  const { records, pass, set, result, synced } = rig(t);
  synced();
  records.set(NAME, new Error("ESERVFAIL"));
  set("a");
  await pass(2_100);
  assert.equal(result("a"), "edge");
});

test("three answers in a minute confirm that a name is elsewhere, and also that it is back", async (t) => {
  const { records, pass, set, result, synced, state } = rig(t);
  synced();
  state.ttl = 60;
  records.set(NAME, [CDN]);
  set("a");
  await pass(30_500);
  assert.equal(result("a"), "dns-elsewhere?");
  // A CDN answers with different addresses each time.
  records.set(NAME, ["198.51.100.51"]);
  await pass(33_000);
  assert.equal(result("a"), "dns-elsewhere");
  records.set(NAME, [LB]);
  await pass(60_000);
  assert.equal(result("a"), "dns-elsewhere");
  await pass(65_000);
  assert.equal(result("a"), "edge!");
});

test("a change needs three equal answers over a minute; if the old answer returns, nothing changes", async (t) => {
  const { records, pass, set, result, synced, state } = rig(t);
  synced();
  state.ttl = 60;
  records.set(NAME, [LB]);
  set("a");
  await pass(100);
  records.set(NAME, [CDN]);
  await pass(100_000);
  assert.equal(result("a"), "edge!");
  records.set(NAME, [LB]);
  await pass(31_000);
  records.set(NAME, [CDN]);
  await pass(100_000);
  assert.equal(result("a"), "edge!");
  await pass(31_000);
  assert.equal(result("a"), "dns-elsewhere");
});

test("our own addresses are no evidence: the previous result stays", async (t) => {
  const { records, pass, set, result, synced, state } = rig(t);
  synced();
  state.ttl = 60;
  records.set(NAME, [INTERNAL]);
  set("a");
  records.set("b.example.com", [FRONT]);
  set("b", "edge", "b.example.com");
  await pass(100);
  assert.deepEqual([result("a"), result("b")], ["internal!", "edge"]);
  records.set(NAME, [FRONT]);
  await pass(300_000);
  assert.deepEqual([result("a"), result("b")], ["internal!", "edge"]);
});

test("DNS gives a name its first target; an externalIP only that of its class, and without proof", async (t) => {
  const { records, pass, setLacking, result, synced } = rig(t);
  synced();
  records.set("a.com", [INTERNAL]).set("b.com", [CDN]).set("c.com", [EXTERNAL]).set("d.com", [EXTERNAL]);
  records.set("e.com", [FRONT]);
  for (const name of ["a", "b", "d", "e", "f"]) setLacking(name, `${name}.com`);
  setLacking("c", "c.com", "edge");
  assert.equal(result("a"), "no-service", "it waits for nothing");
  await pass(100);
  assert.deepEqual(["a", "b", "c", "d", "e", "f"].map(result), [
    "internal!",
    "no-service",
    "edge",
    "no-service",
    "no-service",
    "no-service",
  ]);
});

test("three answers in a minute take the target from a name to which DNS gave it, or give it another", async (t) => {
  const { records, pass, setLacking, result, synced, state } = rig(t);
  synced();
  state.ttl = 60;
  records.set("a.com", [INTERNAL]);
  setLacking("a", "a.com");
  await pass(100);
  records.set("a.com", [CDN]);
  await pass(100_000);
  assert.equal(result("a"), "internal!");
  await pass(31_000);
  assert.equal(result("a"), "no-service");
  records.set("a.com", [LB]);
  await pass(131_000);
  assert.equal(result("a"), "edge!");
});

test("a name without a target is looked up again when a Service gets its address", async (t) => {
  const { records, pass, setLacking, result, synced, state, addresses, verifier, asked } = rig(t);
  synced();
  state.ttl = 3_600;
  records.set("a.com", [CDN]).set("b.com", [LB]);
  setLacking("a", "a.com");
  setLacking("b", "b.com");
  await pass(100);
  assert.deepEqual([result("a"), asked.length], ["no-service", 2]);
  addresses.targets.new = [CDN];
  verifier.reconsider();
  await pass(100_000);
  assert.deepEqual([result("a"), asked.filter((one) => one.startsWith("b.com")).length], ["new!", 1]);
});

test("once an object has a target, its name waits for an answer; one that leads elsewhere is not final", async (t) => {
  const { records, pass, set, setLacking, result, synced, state } = rig(t);
  synced();
  state.slow = true;
  records.set("a.com", [CDN]).set("b.com", [CDN]);
  setLacking("a", "a.com");
  set("a", "edge", "a.com");
  assert.equal(result("a"), "dns-pending?");
  state.slow = false;
  await pass(100);
  assert.equal(result("a"), "dns-elsewhere?");
  setLacking("b", "b.com");
  await pass(100);
  set("b", "edge", "b.com");
  assert.equal(result("b"), "dns-elsewhere?");
});

test("a name whose target DNS chose follows the answers of that target's ingress controller", async (t) => {
  const { records, pass, setLacking, result, synced, addresses, headersChanged } = rig(t);
  synced();
  addresses.against.internal = { reason: { code: "header-unknown", text: "not asked yet" }, pending: true };
  records.set("a.com", [INTERNAL]);
  setLacking("a", "a.com");
  await pass(100);
  assert.equal(result("a"), "header-unknown?");
  delete addresses.against.internal;
  headersChanged();
  assert.equal(result("a"), "internal!");
});

test("a target without addresses is mapped at once, and not looked up", async (t) => {
  const { pass, set, result, synced, asked } = rig(t);
  synced();
  set("a", "outside");
  assert.equal(result("a"), "outside");
  await pass(5_000);
  assert.deepEqual(asked, []);
});

test("map: always on the Service overrides that a name is elsewhere, even if it is set later", async (t) => {
  const { records, pass, set, result, synced, addresses, verifier } = rig(t);
  synced();
  records.set(NAME, [CDN]);
  set("a");
  await pass(100_000);
  assert.equal(result("a"), "dns-elsewhere");
  addresses.always.push("edge");
  verifier.reconsider();
  assert.equal(result("a"), "edge");
  assert.equal(verifier.warningOf(NAME)?.code, "dns-elsewhere");
});

test("after a load balancer's address changes, its names stay until DNS has answered three times", async (t) => {
  const { records, pass, set, result, synced, addresses, verifier, asked } = rig(t);
  synced();
  records.set(NAME, [LB]);
  set("a");
  await pass(100);
  addresses.targets.edge = ["203.0.113.10"];
  verifier.reconsider();
  await pass(200);
  assert.deepEqual([result("a"), asked.length], ["edge!", 2]);
  records.set(NAME, ["203.0.113.10"]);
  await pass(100_000);
  assert.equal(result("a"), "edge!");
});

test("another object with a known name does not wait, for example that of an ACME solver", async (t) => {
  const { records, pass, set, result, synced } = rig(t);
  synced();
  records.set(NAME, [LB]);
  set("a");
  await pass(100);
  set("solver");
  assert.equal(result("solver"), "edge!");
  set("other", "internal");
  assert.equal(result("other"), "edge!");
});

test("names of the start wait for their turn while DNS answers, but only 2 s if it does not", async (t) => {
  const { records, pass, report, synced, state, asked, verifier } = rig(t);
  const names = Array.from({ length: 500 }, (_, index) => `n${index}.example.com`);
  for (const name of names) records.set(name, [CDN]);
  for (const name of names) report(name, [claimOf(name, "shop/x", { target: "edge" })]);
  synced();
  await pass(3_000);
  assert.ok(asked.length > 200 && asked.length <= 320, String(asked.length));
  const waiting = () => names.filter((name) => verifier.stateOf(name) === "waiting").length;
  assert.equal(waiting(), 500 - asked.length);
  state.slow = true;
  await pass(2_200);
  assert.equal(waiting(), 0);
});

test("at the first start of an install, each name waits 2 s", async (t) => {
  const { pass, report, state, verifier, addresses } = rig(t);
  addresses.isFirstStart = true;
  state.slow = true;
  const names = Array.from({ length: 500 }, (_, index) => `n${index}.example.com`);
  for (const name of names) report(name, [claimOf(name, "shop/x", { target: "edge" })]);
  const waiting = () => names.filter((name) => verifier.stateOf(name) === "waiting").length;
  await pass(1_900);
  assert.equal(waiting(), 500);
  await pass(200);
  assert.equal(waiting(), 0);
});

test("a public IPv6 address of a name is detected; our own is not public", async (t) => {
  const { records, pass, set, synced, verifier, addresses } = rig(t);
  synced();
  addresses.own.push("fd00::9");
  records.set("six.example.com", [LB, "2001:db8::9"]).set("own.example.com", [LB, "fd00::9"]).set(NAME, [LB]);
  for (const name of ["six.example.com", "own.example.com", NAME]) set(name, "edge", name);
  // Only the second look-up asks for IPv6 addresses.
  await pass(310_000);
  assert.deepEqual(
    ["six.example.com", "own.example.com", NAME].map((name) => verifier.hasPublicIpv6(name)),
    [true, false, false],
  );
});

test("DNS does not move a name from its chosen target, but a name that is elsewhere is not mapped", async (t) => {
  const { records, pass, report, result, synced } = rig(t);
  synced();
  records.set("a.example.com", [INTERNAL]).set("b.example.com", [INTERNAL]).set("c.example.com", [CDN]);
  report("a", [{ ...claimOf("a.example.com", "shop/a", { target: "edge" }), chosen: true }]);
  report("b", [claimOf("b.example.com", "shop/b", { target: "edge" })]);
  report("c", [{ ...claimOf("c.example.com", "shop/c", { target: "edge" }), chosen: true }]);
  await pass(100);
  assert.deepEqual([result("a"), result("b")], ["edge", "internal!"]);
  assert.match(result("c") ?? "", /^dns-elsewhere/);
});
