import assert from "node:assert/strict";
import { test } from "node:test";
import { emptyPublisherState, renderPublisherState } from "#extras/publishers/publisher-state.ts";
import { NAMESPACE } from "#test/fakes/installed.ts";
import { fakeApi, json, refuse } from "#test/fakes/kube-api.ts";
import { readPublishers } from "./publishers.ts";

const stateOf = (publisher: string, data: Record<string, string>) => ({
  metadata: { labels: { "switchback.dev/publisher": publisher } },
  data,
});

test("publishers are read from their reports; an unreadable report becomes a problem", async () => {
  const state = { ...emptyPublisherState("coredns", "kube-system"), names: 3, behindSince: 5 };
  const problem = { code: "taken-back", text: "by kubectl" };
  const items = [
    stateOf("coredns", { "state.json": renderPublisherState(state) }),
    stateOf("other", { "state.json": renderPublisherState({ ...state, problem }) }),
    stateOf("odd", { "state.json": '{"format":99}' }),
    stateOf("none", {}),
  ];
  const api = await fakeApi(json({ kind: "List", metadata: { resourceVersion: "1" }, items }));
  try {
    const read = await readPublishers(api.client, NAMESPACE);
    assert.ok(read.known);
    const row = { name: "coredns", place: "kube-system", names: 3, leftOut: 0, behindSince: 5, problem: undefined };
    assert.deepEqual(read.value.slice(0, 2), [row, { ...row, name: "other", problem }]);
    assert.deepEqual(
      read.value.slice(2).map(({ name, problem: why }) => [name, why?.code]),
      [
        ["odd", "publisher-state-unreadable"],
        ["none", "publisher-state-unreadable"],
      ],
    );
    assert.equal(api.calls[0]?.query.get("labelSelector"), "switchback.dev/publisher");
  } finally {
    await api.close();
  }
});

test("without the right to read their reports, publishers are unknown", async () => {
  const api = await fakeApi(refuse(403, "Forbidden"));
  try {
    const read = await readPublishers(api.client, NAMESPACE);
    assert.ok(!read.known && read.reason.code === "right-missing");
  } finally {
    await api.close();
  }
});
