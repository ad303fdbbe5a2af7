import assert from "node:assert/strict";
import { test } from "node:test";
import { DNS_TOOLS } from "#test/fakes/dns-tools.ts";
import { FORBIDDEN, HEALTHY, NAME } from "#test/fakes/doctor-facts.ts";
import { known } from "../fact.ts";
import type { DnsFileFacts } from "../facts.ts";
import { leftoverFindings } from "./dns-of-other-tools.ts";

// extras/publishers/integration/migrating.test.ts checks that each command removes its lines and nothing else.

const COREFILE = ".:53 {\n    errors\n    reload\n}\n";
const found = (...files: readonly DnsFileFacts[]) => leftoverFindings({ ...HEALTHY, clusterDns: known(files) });
const corefile = (text: string) => ({ place: "kube-system/coredns", key: "Corefile", text });

test("files without lines of other tools yield no finding; unreadable files are unknown", () => {
  assert.deepEqual(found(corefile(COREFILE)), []);
  const [finding, ...others] = leftoverFindings({ ...HEALTHY, clusterDns: FORBIDDEN });
  assert.deepEqual([finding?.status, finding?.code, others], ["unknown", "right-missing", []]);
});

for (const { tool, key = "Corefile", write } of DNS_TOOLS) {
  test(`the lines that ${tool} wrote to the key ${key} are one finding, with the command that removes them`, () => {
    const place = key === "Corefile" ? "kube-system/coredns" : "kube-system/coredns-custom";
    const findings = found({ place, key, text: write(COREFILE, [NAME, "other.example.net"]) });
    assert.equal(findings.length, 1);
    const [{ code, subject, evidence, cures }] = findings as [(typeof findings)[0]];
    assert.deepEqual([code, subject], ["dns-leftover", `ConfigMap ${place}, key ${key}`]);
    assert.match(evidence, new RegExp(`^[24] line\\(s\\) of ${tool}: .*rewrite name ${NAME} `));
    assert.match(
      cures.join(),
      /^uninstall that tool first .*, then run: `kubectl -n kube-system (get|patch) configmap .*`$/,
    );
  });
}

const BEGIN = "    # === BEGIN ouroboros (do not edit by hand) ===\n";
const END = "    # === END ouroboros ===\n";
for (const lines of [BEGIN, END, END + BEGIN, BEGIN + END + BEGIN]) {
  test(`a block without an end gets no command: ${JSON.stringify(lines)}`, () => {
    const [finding, ...others] = found(corefile(COREFILE.replace("    reload", `${lines}    reload`)));
    assert.equal(others.length, 0);
    assert.match(finding?.evidence ?? "", /^[123] line\(s\) that name another tool: # === (?:BEGIN|END) ouroboros/);
    assert.deepEqual(finding?.cures, [
      "uninstall that tool first (docs/migrating.md), then run: `kubectl -n kube-system edit configmap coredns`",
    ]);
  });
}

test("manual rewrites of mapped names are reported, with and without `exact` and the last dot", () => {
  const lines = [`name exact ${NAME}. edge.svc`, `name ${NAME} edge.svc`, "stop name other.example.org edge.svc"];
  const text = COREFILE.replace("    errors", lines.map((line) => `    rewrite ${line}`).join("\n"));
  const [finding, ...others] = found(corefile(text));
  assert.equal(others.length, 0);
  assert.equal(finding?.code, "dns-rewritten");
  assert.deepEqual(finding?.cures, [
    "remove these lines: `kubectl -n kube-system edit configmap coredns` (docs/migrating.md)",
  ]);
  assert.match(finding?.evidence ?? "", /^2 name\(s\) of the map are rewritten, .* breaks DNS-01: rewrite name exact /);
});
