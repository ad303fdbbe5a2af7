import assert from "node:assert/strict";
import { test } from "node:test";
import { verifierRig as rig } from "#test/fakes/verifier-rig.ts";
import { countDecisions } from "./claim-decisions.ts";

const LB = "203.0.113.9";

test("a name is verified, elsewhere, absent, or unknown without a first answer or addresses to compare", async (t) => {
  const { expect, verifier, records, pass, code, asked } = rig(t);
  records.set("here.example.com", ["198.51.100.1", LB]);
  records.set("cdn.example.com", ["198.51.100.1"]);
  for (const name of ["here", "cdn", "none"]) expect(`${name}.example.com`, [LB]);
  expect("bare.example.com", ["lb.example.net"]);
  assert.equal(code("here.example.com"), "unknown");
  await pass(500);
  assert.deepEqual(
    ["here", "cdn", "none", "bare"].map((name) => code(`${name}.example.com`)),
    ["verified", "dns-elsewhere", "dns-absent", "unknown"],
  );
  assert.deepEqual(countDecisions(verifier.decisions()), {
    verified: 1,
    unknown: 1,
    "dns-elsewhere": 1,
    "dns-absent": 1,
    "dns-other-target": 0,
  });
  assert.deepEqual([...verifier.mismatches()].map(([name]) => name).sort(), ["cdn.example.com", "none.example.com"]);
  assert.ok(!asked.some((each) => each.startsWith("bare")));
});

test("after a large answer, the names of that namespace wait, and the names of others do not", async (t) => {
  const { expect, records, pass, asked } = rig(t, { claimantOf: (name) => (name.startsWith("wide") ? "a" : "b") });
  const large = Array.from({ length: 4_000 }, (_, index) => `198.51.${100 + (index >> 8)}.${index & 255}`);
  const names = Array.from({ length: 40 }, (_, index) => `wide-${index}.example.com`);
  for (const name of names) records.set(name, large);
  for (const name of names) expect(name, [LB]);
  await pass(500);
  assert.equal(asked.length, 8, "as many as there are look-ups at a time");
  records.set("shop.example.com", [LB]);
  expect("shop.example.com", [LB]);
  await pass(100);
  assert.deepEqual(asked.splice(0).slice(8), ["shop.example.com/4"]);
  await pass(10_000);
  assert.equal(new Set(asked).size, 32, "the others have their turns later");
});

test("a wildcard is looked up by a name below it; a missing record is no evidence about names below it", async (t) => {
  const { expect, verifier, records, pass, code } = rig(t);
  records.set("switchback-dns-check.here.example.com", [LB]);
  records.set("switchback-dns-check.cdn.example.com", ["198.51.100.1"]);
  for (const name of ["here", "cdn", "none"]) expect(`*.${name}.example.com`, [LB]);
  await pass(500);
  assert.deepEqual(
    ["here", "cdn", "none"].map((name) => code(`*.${name}.example.com`)),
    ["verified", "dns-elsewhere", "unknown"],
  );
  assert.deepEqual(
    [...verifier.mismatches()].map(([name]) => name),
    ["*.cdn.example.com"],
  );
});

test("the address families of the load balancer are looked up, and addresses are normalized", async (t) => {
  const { expect, records, pass, code, asked } = rig(t);
  records.set("six.example.com", ["2001:db8::9"]);
  expect("six.example.com", ["2001:DB8:0::9"]);
  await pass(200);
  assert.deepEqual([code("six.example.com"), asked], ["verified", ["six.example.com/6"]]);
});

test("if one family fails, the other can verify a name, but is no evidence against it", async (t) => {
  const { expect, records, pass, code } = rig(t);
  for (const name of ["here", "cdn"]) records.set(`${name}.example.com/6`, new Error("ESERVFAIL"));
  records.set("here.example.com", [LB]).set("cdn.example.com", ["198.51.100.1"]);
  for (const name of ["here", "cdn"]) expect(`${name}.example.com`, [LB, "2001:db8::9"]);
  await pass(500);
  assert.deepEqual([code("here.example.com"), code("cdn.example.com")], ["verified", "unknown"]);
});

test("an answer is valid for its TTL, between a minute and an hour", async (t) => {
  const { expect, records, pass, asked, state, code } = rig(t);
  records.set("a.example.com", [LB]);
  state.ttl = 120;
  expect("a.example.com", [LB]);
  await pass(119_000);
  assert.equal(asked.length, 1);
  records.set("a.example.com", ["198.51.100.1"]);
  state.ttl = 1;
  await pass(3_000);
  assert.deepEqual([asked.length, code("a.example.com")], [2, "dns-elsewhere"]);
  await pass(57_000);
  assert.equal(asked.length, 2);
  await pass(4_000);
  assert.equal(asked.length, 3);
});

test("a failed look-up keeps the last decision, and is retried", async (t) => {
  const { expect, records, pass, asked, code, reported } = rig(t);
  records.set("a.example.com", [LB]);
  expect("a.example.com", [LB]);
  await pass(200);
  records.set("a.example.com", new Error("ESERVFAIL"));
  await pass(305_000);
  assert.deepEqual([code("a.example.com"), asked.length], ["verified", 2]);
  await pass(31_000);
  assert.deepEqual([code("a.example.com"), asked.length, reported.length], ["verified", 3, 1]);
});

test("after many consecutive failures, DNS counts as down, and look-ups pause", async (t) => {
  const { expect, records, pass, asked } = rig(t);
  for (let index = 0; index < 200; index += 1) {
    records.set(`n${index}.example.com`, new Error("ETIMEOUT"));
    expect(`n${index}.example.com`, [LB]);
  }
  await pass(10_000);
  assert.ok(asked.length < 40, String(asked.length));
  await pass(25_000);
  assert.ok(asked.length > 20, "it goes on after the pause");
});

test("concurrent look-ups and look-ups per second are limited, however many names there are", async (t) => {
  const { expect, pass, asked, state } = rig(t);
  for (let index = 0; index < 1_000; index += 1) expect(`n${index}.example.com`, [LB]);
  await pass(1_000);
  assert.ok(asked.length >= 50 && asked.length <= 100, String(asked.length));
  state.slow = true;
  await pass(2_000);
  assert.equal(state.most, 8);
  state.slow = false;
});

test("changed addresses are compared with the last answer and looked up again; a removed name is not", async (t) => {
  const { expect, decisionOf, verifier, records, pass, asked, code } = rig(t);
  records.set("a.example.com", [LB]);
  expect("a.example.com", ["198.51.100.1"]);
  await pass(200);
  assert.equal(code("a.example.com"), "dns-elsewhere");
  expect("a.example.com", [LB]);
  assert.equal(code("a.example.com"), "verified");
  assert.equal(typeof decisionOf("a.example.com", ["198.51.100.1"]), "object", "checked for one claim only");
  await pass(1_000);
  assert.equal(asked.length, 2);
  verifier.forget("a.example.com");
  await pass(400_000);
  assert.deepEqual([asked.length, code("a.example.com")], [2, "unknown"]);
});

test("the text of each decision has at most four addresses, and those that were expected", async (t) => {
  const { expect, verifier, records, pass } = rig(t);
  const many = [5, 4, 3, 2, 1].map((last) => `198.51.100.${last}`);
  records.set("cdn.example.com", many);
  expect("cdn.example.com", [LB, "2001:DB8::9"]);
  expect("none.example.com", [LB]);
  await pass(200);
  const found = "198.51.100.1, 198.51.100.2, 198.51.100.3, 198.51.100.4";
  assert.deepEqual(
    [...verifier.mismatches()],
    [
      [
        "cdn.example.com",
        {
          code: "dns-elsewhere",
          text:
            `the cluster's DNS resolves "cdn.example.com" to ${found}, not to its load balancer (${LB}, ` +
            "2001:db8::9)",
        },
      ],
      [
        "none.example.com",
        {
          code: "dns-absent",
          text: `the cluster's DNS has no address for "none.example.com"; expected is ${LB}`,
        },
      ],
    ],
  );
});

test("a decision is reported only when it may have changed", async (t) => {
  const { expect, records, pass, reported } = rig(t);
  records.set("a.example.com", [LB]);
  expect("a.example.com", [LB]);
  await pass(200);
  assert.deepEqual(reported.splice(0), ["a.example.com"]);
  expect("a.example.com", [LB]);
  await pass(400_000);
  assert.deepEqual(reported, [], "the same answer");
  expect("a.example.com", [LB, "198.51.100.1"]);
  assert.deepEqual(reported, [], "its claims are the caller's");
  records.set("a.example.com", ["198.51.100.7"]);
  await pass(3_000);
  assert.deepEqual(reported, ["a.example.com"]);
});

test("twenty consecutive failures pause all look-ups for half a minute; an answer resets the count", async (t) => {
  const { expect, records, pass, asked, log, state } = rig(t);
  const paused = () =>
    log.lines.filter(({ level }) => level === "warn").map(({ fields, message }) => [fields, message]);
  const fail = (from: number, to: number) => {
    for (let index = from; index < to; index += 1) {
      records.set(`n${index}`, new Error("ETIMEOUT"));
      expect(`n${index}`, [LB]);
    }
  };
  fail(0, 19);
  await pass(2_000);
  records.set("good", [LB]);
  expect("good", [LB]);
  await pass(2_000);
  fail(19, 38);
  await pass(2_000);
  assert.deepEqual(paused(), []);
  const { length } = asked;
  fail(38, 39);
  await pass(2_000);
  assert.deepEqual(paused(), [[{ code: "dns-unreachable" }, "names are not verified for now: ETIMEOUT"]]);
  assert.equal(asked.length, length + 1);
  assert.deepEqual(log.lines[0], { level: "debug", fields: { name: "n0" }, message: "not looked up: ETIMEOUT" });
  expect("late", [LB]);
  await pass(28_000 - (state.now % 1_000));
  assert.ok(!asked.includes("late/4"), "paused");
  await pass(4_000);
  assert.ok(asked.includes("late/4"));
});

test("only one look-up of a name runs at a time, and its answer is ignored once the name is forgotten", async (t) => {
  const { expect, verifier, records, pass, asked, state, code, reported } = rig(t);
  records.set("a.example.com", [LB]);
  state.slow = true;
  expect("a.example.com", [LB]);
  await pass(100);
  expect("a.example.com", ["198.51.100.1"]);
  await pass(2_000);
  assert.deepEqual(asked, ["a.example.com/4"]);
  verifier.forget("a.example.com");
  reported.length = 0;
  state.slow = false;
  await pass(400_000);
  assert.deepEqual([code("a.example.com"), reported, asked.length], ["unknown", [], 1]);
});

test("a stopped verifier looks up nothing more", async (t) => {
  const { expect, verifier, pass, asked } = rig(t);
  verifier.stop();
  expect("a.example.com", [LB]);
  await pass(2_000);
  assert.deepEqual(asked, []);
});

test("the decision on one claim is unknown without an answer or addresses; else the last answer decides", async (t) => {
  const { expect, decisionOf, records, pass } = rig(t);
  assert.equal(decisionOf("a.example.com", [LB]), "unknown");
  records.set("a.example.com", [LB]);
  expect("a.example.com", [LB]);
  assert.equal(decisionOf("a.example.com", [LB]), "unknown");
  await pass(200);
  assert.equal(decisionOf("a.example.com", [LB]), "verified");
  assert.equal(decisionOf("a.example.com", ["lb.example.net"]), "unknown");
});

for (const mode of ["warn", "enforce"] as const) {
  test(`${mode}: our own addresses in DNS, given by a publisher, change no decision and are no mismatch`, async (t) => {
    const { verifier, expect, records, pass, state, code, reported } = rig(t, {
      mode,
      addresses: { own: ["10.96.0.9"] },
    });
    state.ttl = 1;
    records.set("a.example.com", [LB]);
    expect("a.example.com", [LB]);
    await pass(100);
    // A mapped name is published, so its record is ours. If it were no longer mapped, it would have its own record
    // again.
    for (let turn = 0; turn < 5; turn += 1) {
      records.set("a.example.com", code("a.example.com") === "verified" ? ["10.96.0.9"] : [LB]);
      await pass(62_000);
    }
    assert.deepEqual([code("a.example.com"), reported], ["verified", ["a.example.com"]]);
    assert.deepEqual([...verifier.mismatches()], []);
  });
}

test("the family that the target lacks is looked up once an hour, and whenever it decides", async (t) => {
  const { expect, records, pass, askedForIpv6, verifier, code, state } = rig(t, { mode: "auto" });
  state.ttl = 60;
  records.set("a.example.com", [LB, "2001:db8::9"]).set("six.example.com", ["2001:db8::9"]);
  expect("a.example.com", [LB]);
  await pass(1_000);
  assert.equal(askedForIpv6.length, 0, "a new name does not wait for it");
  await pass(2 * 60_000);
  assert.deepEqual([askedForIpv6.length, verifier.hasPublicIpv6("a.example.com")], [1, true]);
  await pass(40 * 60_000);
  assert.deepEqual([askedForIpv6.length, verifier.hasPublicIpv6("a.example.com")], [1, true]);
  await pass(40 * 60_000);
  assert.equal(askedForIpv6.length, 2);
  records.set("a.example.com", ["198.51.100.1", "2001:db8::9"]);
  await pass(4 * 60_000);
  assert.equal(code("a.example.com"), "dns-elsewhere");
  assert.ok(askedForIpv6.length >= 4, "while its answer changes");
  expect("six.example.com", [LB]);
  await pass(1_000);
  assert.ok(askedForIpv6.includes("six.example.com"));
  assert.equal(code("six.example.com"), "dns-elsewhere", "it is not absent");
});

test("a name with more addresses than are kept is decided on all that were read, also for a later claim", async (t) => {
  const all = Array.from({ length: 64 }, (_, index) => `192.0.2.${index + 1}`);
  const addresses = { targets: { edge: ["192.0.2.9"], internal: ["192.0.2.64"] } };
  const { verifier, records, pass } = rig(t, { mode: "auto", addresses });
  records.set("a.example.com", all);
  const claim = (target: string) => ({ target, publicAddresses: [] });
  verifier.expect("a.example.com", [claim("internal")]);
  await pass(100);
  assert.equal(verifier.decisionOf("a.example.com", claim("internal")), "verified");
  assert.equal(verifier.decisionOf("a.example.com", claim("edge")), "verified");
  assert.equal(verifier.answersOf("a.example.com")?.length, 16);
});
