import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import {
  AGENT_LEASE_LABELS,
  AGENT_LEASE_SELECTOR,
  agentLeaseName,
  agentLeasePath,
  listAgentLeases,
  parseAgentLease,
  renderPodRevisions,
  withFormat,
} from "./agent-lease-format.ts";

test("the name of a Lease contains the node's name", () => {
  assert.equal(
    agentLeaseName("ip-10-0-3-7.eu-west-1.compute.internal"),
    "switchback-agent-ip-10-0-3-7.eu-west-1.compute.internal",
  );
});

test("a name that is too long for an object is cut, stays valid, and is not another node's", () => {
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

test("a Lease without a revision, or with an empty one, has none", () => {
  assert.equal(revisionOf(), undefined);
  assert.equal(revisionOf({ "switchback.dev/revision": "" }), undefined);
});

test("a Lease is written with format version 1; a Lease without a version counts as version 1", () => {
  const annotations = { "switchback.dev/revision": "0df1b281272f" };
  assert.deepEqual(withFormat(annotations), { ...annotations, "switchback.dev/format": "1" });
  assert.equal(revisionOf(withFormat(annotations)), "0df1b281272f");
  assert.equal(revisionOf(annotations), "0df1b281272f");
});

test("of a Lease with another format version, only the time of its renewal is read", () => {
  for (const version of ["2", "0", "01", ""]) {
    const lists = {
      "switchback.dev/problem": "a/b: file-busy",
      "switchback.dev/revision": "0df1b281272f",
      "switchback.dev/pod-revisions": "0df1b281272f",
    };
    const annotations = { ...lists, "switchback.dev/format": version };
    const lease = parseAgentLease({ metadata: { annotations }, spec: { renewTime: "2026-01-01T00:00:00.000000Z" } });
    const unknown = { mapRevision: undefined, podRevisions: undefined, problems: [] };
    assert.deepEqual(lease, { renewTime: "2026-01-01T00:00:00.000000Z", ...unknown });
  }
});

test("a name of 253 characters is kept, a longer one is cut to 253 with the node's hash", () => {
  const [fits, long] = ["n".repeat(236), "n".repeat(237)];
  assert.equal(agentLeaseName(fits), `switchback-agent-${fits}`);
  assert.equal(agentLeaseName(fits).length, 253);
  assert.match(agentLeaseName(long), /^switchback-agent-n+-[0-9a-f]{12}$/);
  assert.equal(agentLeaseName(long).length, 253);
  assert.match(agentLeaseName(`${"n".repeat(222)}.-.${"n".repeat(30)}`), /^switchback-agent-n{222}-[0-9a-f]{12}$/);
});

test("the path and the selector of the Leases", () => {
  const all = "/apis/coordination.k8s.io/v1/namespaces/agents/leases";
  assert.deepEqual([agentLeasePath("agents"), agentLeasePath("agents", "a")], [all, `${all}/a`]);
  assert.equal(AGENT_LEASE_SELECTOR, "app.kubernetes.io/name=switchback,app.kubernetes.io/component=agent");
});

test("a Lease without annotations or spec has no values", () => {
  const nothing = { renewTime: undefined, mapRevision: undefined, podRevisions: undefined, problems: [] };
  assert.deepEqual(parseAgentLease({ metadata: {} }), nothing);
});

function listed(text: string): readonly string[] | undefined {
  return parseAgentLease({ metadata: { annotations: { "switchback.dev/pod-revisions": text } } }).podRevisions;
}

test("pod revisions are listed sorted, each once, and read back; without a pod that follows, the list is empty", () => {
  const text = renderPodRevisions(["b", "a", "b"]);
  assert.equal(text, "a b");
  assert.deepEqual(listed(text), ["a", "b"]);
  assert.equal(renderPodRevisions([]), "");
  assert.deepEqual(listed(""), []);
});

test("more than 128 pod revisions are not listed, and at most 128 are read", () => {
  const revisions = Array.from({ length: 129 }, (_, index) => String(1_000 + index));
  assert.equal(renderPodRevisions(revisions), undefined);
  assert.deepEqual(listed(renderPodRevisions(revisions.slice(1)) ?? ""), revisions.slice(1));
  assert.equal(listed(revisions.join(" "))?.length, 128);
  assert.equal(listed(" ".repeat(1_000_000))?.length, 0);
});

test("the Leases are listed with their names, and without other Leases", async () => {
  const kube = new MemoryKube();
  const renewTime = "2026-01-01T00:00:00.000000Z";
  for (const [node, revision, spec] of [
    ["a", "r", { renewTime }],
    ["b", "", {}],
  ] as const) {
    const metadata = { labels: AGENT_LEASE_LABELS, annotations: { "switchback.dev/revision": revision } };
    kube.put(agentLeasePath("agents", agentLeaseName(node)), { metadata, spec });
  }
  kube.put(agentLeasePath("agents", "somebodys"), { spec: { renewTime } });
  assert.deepEqual(await listAgentLeases(kube.client, "agents"), [
    { name: "switchback-agent-a", renewTime, mapRevision: "r", podRevisions: undefined, problems: [] },
    { name: "switchback-agent-b", renewTime: undefined, mapRevision: undefined, podRevisions: undefined, problems: [] },
  ]);
});
