import assert from "node:assert/strict";
import { test } from "node:test";
import type { Claim } from "#hostmap/types.ts";
import { claimOf } from "#test/arbitraries.ts";
import { fakeAddressBook } from "#test/fakes/address-book.ts";
import type { ClaimSink, Source } from "../sources/types.ts";
import { countDecisions } from "./claim-decisions.ts";
import { KnownAnswers } from "./known-answers.ts";
import type { VerifyMode } from "./verified-source.ts";

const NAMES = ["here", "internal", "cdn", "none", "ours", "unasked"].map((name) => `${name}.example.com`);
const ANSWERS = new Map([
  ["here.example.com", ["203.0.113.7", "2001:DB8::1"]],
  ["internal.example.com", ["10.0.0.9"]],
  ["cdn.example.com", ["192.0.2.1"]],
  ["none.example.com", []],
  ["ours.example.com", ["198.51.100.9"]],
]);
const BOOK = fakeAddressBook({ targets: { edge: ["203.0.113.7"], inner: ["10.0.0.9"] }, own: ["198.51.100.9"] });

/** Decides on the claims of one object for all names. `isSynced`: whether the address book is synced. */
async function decided(mode: VerifyMode, isSynced = () => true, parts: Partial<Claim> = {}) {
  const claims = NAMES.map((hostname) => ({ ...claimOf(hostname, "shop/web", { target: "edge" }), ...parts }));
  const reports: (readonly Claim[])[] = [];
  const source: Source = {
    start: (sink: ClaimSink, onSynced: () => void) => {
      sink("0/shop/web", claims);
      onSynced();
    },
    state: () => [],
    stop: async () => {},
  };
  const book = Object.defineProperty({ ...BOOK }, "synced", { get: isSynced });
  const known = new KnownAnswers({ answers: ANSWERS, book, mode });
  const one = known.source(source);
  await new Promise<void>((resolve) => one.start((_object, all) => reports.push(all), resolve));
  await one.stop();
  const outcomes = (reports[0] ?? []).map(({ target }) => (typeof target === "string" ? target : target.code));
  return { known, reports, outcomes };
}

test("auto maps a name to where DNS leads it, and does not map it if that is elsewhere", async () => {
  const { known, outcomes } = await decided("auto");
  assert.deepEqual(outcomes, ["edge", "inner", "dns-elsewhere", "edge", "edge", "edge"]);
  assert.deepEqual(countDecisions(known.decisions()), {
    verified: 1,
    unknown: 2,
    "dns-elsewhere": 1,
    "dns-absent": 1,
    "dns-other-target": 1,
  });
  assert.deepEqual(
    [...known.mismatches()].map(([name]) => name),
    ["cdn.example.com"],
  );
  assert.deepEqual([known.hasPublicIpv6("here.example.com"), known.hasPublicIpv6("cdn.example.com")], [true, false]);
});

test("only auto gives a name without a target the one to which DNS leads", async () => {
  const lacking = { lacking: { byClass: undefined }, target: { code: "no-service", text: "" } };
  const { outcomes, known } = await decided("auto", undefined, lacking);
  assert.deepEqual(outcomes, ["edge", "inner", ...Array(4).fill("no-service")]);
  assert.equal(countDecisions(known.decisions())["dns-other-target"], 2);
  assert.deepEqual(new Set((await decided("enforce", undefined, lacking)).outcomes), new Set(["no-service"]));
});

test("enforce refuses unverified names, and warn refuses none", async () => {
  const refused = ["dns-other-target", "dns-elsewhere", "dns-absent", "dns-not-verified", "dns-not-verified"];
  assert.deepEqual((await decided("enforce")).outcomes, ["edge", ...refused]);
  const { outcomes, known } = await decided("warn");
  assert.deepEqual([...new Set(outcomes)], ["edge"]);
  assert.deepEqual([...known.mismatches()].length, 3);
});

test("claims are held until our own addresses are known, and then reported once", async () => {
  let asked = 0;
  const { reports } = await decided("auto", () => ++asked > 3);
  assert.deepEqual([reports.length, asked], [1, 4]);
});
