import assert from "node:assert/strict";
import { test } from "node:test";
import { parseAgentLease } from "./agent-lease-format.ts";
import { type NodeHostsReport, parseNodeHostsReport, renderNodeHostsReport } from "./node-hosts-report.ts";

const REPORT: NodeHostsReport = {
  revision: "0df1b281272f",
  names: 3,
  taken: ["a.example.com"],
  problem: { code: "write-failed", text: "no space" },
};

test("a report is read as it was written, but only with the first taken names", () => {
  assert.deepEqual(parseNodeHostsReport(renderNodeHostsReport(REPORT)), REPORT);
  const empty = { revision: undefined, names: 0, taken: [], problem: undefined };
  assert.deepEqual(parseNodeHostsReport(renderNodeHostsReport(empty)), empty);
  const taken = Array.from({ length: 500 }, (_, index) => `name-${index}.example.com`);
  assert.deepEqual(parseNodeHostsReport(renderNodeHostsReport({ ...empty, taken }))?.taken, taken.slice(0, 5));
});

test("a report with wrong types, invalid JSON or too much text counts as none", () => {
  for (const text of [undefined, "", "{", "null", "1", "[]", '{"names":"3","taken":[]}', '{"names":3}'])
    assert.equal(parseNodeHostsReport(text), undefined, String(text));
  assert.equal(parseNodeHostsReport(renderNodeHostsReport({ ...REPORT, taken: ["a".repeat(9_000)] })), undefined);
  const odd = '{"names":1,"taken":[1,"a",null],"revision":2,"problem":{"code":3}}';
  assert.deepEqual(parseNodeHostsReport(odd), { revision: undefined, names: 1, taken: ["a"], problem: undefined });
});

test("a report is read from a Lease, but not from one with another format version", () => {
  const annotations = { "switchback.dev/revision": "r1", "switchback.dev/node-hosts": renderNodeHostsReport(REPORT) };
  const { mapRevision, nodeHosts } = parseAgentLease({ metadata: { annotations } });
  assert.deepEqual([mapRevision, nodeHosts], ["r1", REPORT]);
  const later = { ...annotations, "switchback.dev/format": "2" };
  assert.equal(parseAgentLease({ metadata: { annotations: later } }).nodeHosts, undefined);
});
