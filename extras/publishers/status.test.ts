import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeApi, json, refuse } from "#test/fakes/kube-api.ts";
import { emptyPublisherState, type PublisherState, renderPublisherState } from "./publisher-state.ts";
import { publisherLines, readPublishers } from "./status.ts";

const NOW = Date.parse("2026-11-24T10:00:00Z");
const good: PublisherState = {
  ...emptyPublisherState("coredns", "key Corefile of the ConfigMap kube-system/coredns"),
  revision: "r1",
  names: 12,
  since: NOW - 3_600_000,
  answered: { revision: "r1", at: NOW - 3_500_000 },
};
const PLACE = "in the key Corefile of the ConfigMap kube-system/coredns";

for (const [what, state, expected] of [
  ["current", good, `12 names ${PLACE} since 2026-11-24T09:00:00.000Z, answered by the cluster's DNS`],
  [
    "late, with names left out",
    { ...good, leftOut: 3, behindSince: NOW - 40_000, problem: { code: "why", text: "no room" } },
    `12 names ${PLACE} since 2026-11-24T09:00:00.000Z, 3 left out, the newest map not yet answered for 40 s; no ` +
      "room (why)",
  ],
  [
    "stopped",
    {
      ...emptyPublisherState("coredns", good.place),
      stopped: 1,
      takenBack: [{ at: NOW, by: "flux\u001b[31m" }],
      problem: { code: "publisher-taken-back", text: "twice" },
    },
    `nothing is published ${PLACE}; twice (publisher-taken-back); taken back 1 time(s), last by flux\\u001b[31m at ` +
      "2026-11-24T10:00:00.000Z",
  ],
  ["leaving", { ...good, leaving: NOW }, "is being taken out of the key Corefile of the ConfigMap kube-system/coredns"],
  ["unreadable", { code: "publisher-state-unreadable", text: "not JSON" }, "not JSON (publisher-state-unreadable)"],
] as const) {
  test(`the line of a publisher that is ${what}`, () => {
    assert.deepEqual(publisherLines({ coredns: state as PublisherState }, NOW), [`publisher coredns: ${expected}`]);
  });
}

test("each document is read separately; one that is missing, forbidden or not ours is left out", async (t) => {
  const api = await fakeApi((call) => {
    if (call.path.endsWith("-import")) return refuse(403, "Forbidden")(call);
    const metadata = { name: "switchback-publisher-coredns", resourceVersion: "7" };
    return json({ metadata, data: { "state.json": renderPublisherState(good) } })(call);
  });
  t.after(() => api.close());
  assert.deepEqual(await readPublishers(api.client, "ours"), { coredns: good });
});
