import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { KNOWN_SOFTWARE } from "#controller/targets/known-software.ts";
import { examine } from "#doctor/checks.ts";
import type { ClusterFacts } from "#doctor/facts.ts";
import { findLoadBalancers } from "#doctor/load-balancers.ts";
import { useFiles } from "#test/fakes/cli.ts";
import { CLUSTERS, dumpOf, type Expected, factsOf, readWhole } from "#test/fakes/cluster-table.ts";
import type { Dump } from "./read-dump.ts";
import { dumpLines, recordCluster } from "./write-dump.ts";

// The doctor's findings on clusters with every provider and implementation that it knows, healthy and broken. Each
// cluster is a dump of the objects in test/sample-clusters, with the result that a probe pod would have there.

const PROVIDERS_FILE = join(import.meta.dirname, "..", "..", "doctor", "providers.ts");
/** The checks that a table is about; the other checks depend on what is installed. */
const CHECKS: readonly string[] = ["need", "short-circuit", "headers", "self-check"];
/** Left out: the API server serves cert-manager's kinds in every cluster, but most clusters have no issuer. */
const NO_ISSUER = "self-check-none";
describe("the doctor's findings", () => {
  const files = useFiles();

  /** Makes a redacted dump from the cluster of a dump. */
  async function redactedText({ head, client, time }: Dump): Promise<string> {
    return [...dumpLines(await recordCluster(client, { ...head, now: time }), true)].join("\n---\n");
  }

  function check(facts: ClusterFacts, expected: Expected): void {
    const findings = examine(facts).filter(({ check, code }) => CHECKS.includes(check) && code !== NO_ISSUER);
    const found = [...new Set(findings.map(({ status, code }) => `${status} ${code}`))];
    assert.deepEqual(found.sort(), [...expected.expect].sort());
    assert.equal(findings[0]?.check, "need", "it is said first");
    assert.deepEqual(
      findLoadBalancers(facts)
        .map(({ software }) => software?.title)
        .join(),
      expected.software ?? "",
    );
    const titles = findings.flatMap(({ cures }) =>
      cures.flatMap((cure) => providers().filter((title) => cure.startsWith(`${title}: `))),
    );
    assert.deepEqual([...new Set(titles)].join(), expected.provider ?? "");
  }

  for (const { file, expected, objects } of CLUSTERS) {
    it(`${file}: ${expected.title}`, async () =>
      check(await factsOf(await dumpOf(objects, files), expected), expected));

    it(`${file}, redacted: the same findings`, async () => {
      const dump = await dumpOf(objects, files);
      const text = await redactedText(dump);
      const redacted = await readWhole(text, files);
      check(await factsOf(redacted, expected), expected);
      const codes = (facts: ClusterFacts) =>
        examine(facts).map(({ check, status, code }) => [check, status, code].join());
      const [before, after] = [await factsOf(dump, expected), await factsOf(redacted, expected)];
      assert.deepEqual(codes(after).sort(), codes(before).sort());
      for (const address of JSON.stringify(objects).match(/\b(?:\d+\.){3}\d+\b/g) ?? [])
        assert.ok(!text.includes(`"${address}"`), address);
      for (const host of JSON.stringify(objects).match(/[a-z0-9-]+(?=\.example\.(?:com|net|org))/g) ?? [])
        assert.ok(!text.includes(`${host}.`), host);
    });
  }
});

/** The titles of the rows of doctor/providers.ts. */
function providers(): string[] {
  return [...readFileSync(PROVIDERS_FILE, "utf8").matchAll(/^ {4}title: "(.*)",$/gm)].map(([, title = ""]) => title);
}

describe("the table of clusters", () => {
  it("has at least thirty clusters, each with its source, and marked as recorded or constructed", () => {
    assert.ok(CLUSTERS.length >= 30, String(CLUSTERS.length));
    for (const { file, expected } of CLUSTERS) {
      assert.match(expected.source, /^https:\/\//, file);
      assert.ok(["recorded", "constructed"].includes(expected.objects), file);
    }
  });

  it("covers every provider and implementation that the doctor knows, and each finding about the need", () => {
    const all = (key: "provider" | "software") => new Set(CLUSTERS.flatMap(({ expected }) => expected[key] ?? []));
    assert.deepEqual([...all("provider")].sort(), providers().sort());
    assert.deepEqual([...all("software")].sort(), KNOWN_SOFTWARE.map(({ title }) => title).sort());
    const statuses = new Set(CLUSTERS.flatMap(({ expected }) => expected.expect));
    for (const status of ["ok need-none", "unknown need-unseen", "unknown need-pending", "warning mapping-needed"])
      assert.ok(statuses.has(status), status);
  });
});
