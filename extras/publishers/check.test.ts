import assert from "node:assert/strict";
import { test } from "node:test";
import { known } from "#doctor/fact.ts";
import type { Reason } from "#hostmap/types.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { settingsOf } from "#lib/config/sections.ts";
import { FORBIDDEN } from "#test/fakes/doctor-facts.ts";
import { publisherFindings } from "./check.ts";
import { PUBLISHERS_SECTION } from "./config.ts";
import { emptyPublisherState, type PublisherState } from "./publisher-state.ts";

const NOW = 1_700_000_000_000;
const good: PublisherState = {
  ...emptyPublisherState("coredns", "key Corefile of the ConfigMap kube-system/coredns"),
  revision: "r1",
  names: 12,
  publishedAt: NOW - 1_000_000,
};

function run(states: Record<string, PublisherState | Reason> | undefined, publishers: object = {}): string[] {
  const settings = settingsOf(parseConfig({ publishers }, [PUBLISHERS_SECTION]), PUBLISHERS_SECTION);
  const facts = states === undefined ? FORBIDDEN : known(new Map(Object.entries(states)));
  return publisherFindings({ publishers: facts, settings, now: NOW }).map(
    ({ status, code, subject, evidence }) => `${status} ${code} | ${subject} | ${evidence}`,
  );
}

const ON = { coredns: { enabled: true } };
const BOTH = { ...ON, corednsImport: { enabled: true } };

test("no finding if no publisher is enabled and none has reported, also without the right to read reports", () => {
  assert.deepEqual(run({}), []);
  assert.deepEqual(run(undefined), []);
});

for (const [what, states, settings, expected] of [
  ["current", { coredns: good }, ON, /^ok extra-works \| publisher coredns \| 12 names in the key Corefile/],
  ["with names left out", { coredns: { ...good, leftOut: 3 } }, ON, /12 names in .*, without 3 others$/],
  [
    "back after somebody took it out",
    { coredns: { ...good, since: 0, takenBack: [{ at: 1 }, { at: 2, by: "flux" }] } },
    ON,
    /^ok .* since 1970-01-01T00:00:00.000Z; taken back 2 time\(s\), last by flux$/,
  ],
  ["late by seconds", { coredns: { ...good, behindSince: NOW - 100_000 } }, ON, /^ok extra-works/],
  [
    "late by minutes",
    { coredns: { ...good, behindSince: NOW - 600_000 } },
    ON,
    /^warning publisher-behind .* 10 minutes$/,
  ],
  [
    "partly refused",
    { coredns: { ...good, problem: { code: "why", text: "because" } } },
    ON,
    /^warning why .* because$/,
  ],
  ["stopped", { coredns: { ...good, stopped: 1, problem: { code: "why", text: "x" } } }, ON, /^broken why/],
  ["refused", { coredns: { ...good, names: 0, problem: { code: "why", text: "x" } } }, ON, /^broken why/],
  ["leaving", { coredns: { ...good, leaving: NOW } }, ON, /^ok extra-works/],
  ["silent", {}, ON, /^warning publisher-silent/],
  ["left over", { coredns: good }, {}, /^warning publisher-left/],
  [
    "unreadable",
    { coredns: { code: "publisher-state-unreadable", text: "x" } },
    ON,
    /^unknown publisher-state-unreadable/,
  ],
  ["not readable", undefined, ON, /^unknown right-missing/],
] as ReadonlyArray<readonly [string, Record<string, PublisherState | Reason> | undefined, object, RegExp]>) {
  test(`a publisher that is ${what}`, () => {
    const found = run(states, settings);
    assert.equal(found.length, 1, found.join("\n"));
    assert.match(found[0] ?? "", expected);
  });
}

test("two publishers that have had different maps for too long are a finding", () => {
  const other = { ...good, publisher: "coredns-import", revision: "r2" };
  assert.equal(run({ coredns: good, "coredns-import": { ...other, publishedAt: NOW - 1_000 } }, BOTH).length, 2);
  const found = run({ coredns: good, "coredns-import": other }, BOTH);
  assert.match(
    found[2] ?? "",
    /^warning publishers-differ \| publishers \| coredns and coredns-import have different maps/,
  );
});
