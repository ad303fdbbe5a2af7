import assert from "node:assert/strict";
import { test } from "node:test";
import { agentLeaseName, parseAgentLease, withFormat } from "./agent-lease-format.ts";

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

function revisionOf(annotations?: Record<string, string>): string | undefined {
  const metadata = annotations === undefined ? {} : { annotations };
  return parseAgentLease({ metadata }).mapRevision;
}

test("a Lease that names no revision says nothing about any", () => {
  assert.equal(revisionOf(), undefined);
  assert.equal(revisionOf({ "switchback.dev/revision": "" }), undefined);
});

test("a Lease is written with format version 1; without a version, as earlier releases write it, it is of version 1", () => {
  const annotations = { "switchback.dev/revision": "0df1b281272f" };
  assert.deepEqual(withFormat(annotations), { ...annotations, "switchback.dev/format": "1" });
  assert.equal(revisionOf(withFormat(annotations)), "0df1b281272f");
  assert.equal(revisionOf(annotations), "0df1b281272f");
});

test("a Lease of another format version is that of an agent whose revision is not known", () => {
  for (const version of ["2", "0", "01", ""]) {
    const annotations = { "switchback.dev/revision": "0df1b281272f", "switchback.dev/format": version };
    const lease = parseAgentLease({ metadata: { annotations }, spec: { renewTime: "2026-01-01T00:00:00.000000Z" } });
    assert.deepEqual(lease, { renewTime: "2026-01-01T00:00:00.000000Z", mapRevision: undefined });
  }
});
