import assert from "node:assert/strict";
import { test } from "node:test";
import { agentLeaseName, appliedRevision } from "./agent-lease.ts";

test("a node's Lease carries its name", () => {
  assert.equal(
    agentLeaseName("ip-10-0-3-7.eu-west-1.compute.internal"),
    "switchback-agent-ip-10-0-3-7.eu-west-1.compute.internal",
  );
});

test("a name that would be too long for an object is cut, stays valid, and stays its node's own", () => {
  const stem = `${"a".repeat(222)}.`;
  const [one, other] = [agentLeaseName(`${stem}${"b".repeat(30)}`), agentLeaseName(`${stem}${"b".repeat(29)}c`)];
  for (const name of [one, other]) {
    assert.ok(name.length <= 253, String(name.length));
    assert.match(name, /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/);
  }
  assert.notEqual(one, other);
});

test("a Lease that names no revision says nothing about any", () => {
  assert.equal(appliedRevision({}), undefined);
  assert.equal(appliedRevision({ annotations: { "switchback.dev/revision": "" } }), undefined);
  assert.equal(appliedRevision({ annotations: { "switchback.dev/revision": "0df1b281272f" } }), "0df1b281272f");
});
