import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { KNOWN_SOFTWARE } from "#controller/sources/known-software.ts";
import { canonicalIp } from "#controller/targets/service-view.ts";
import { examine } from "#doctor/checks.ts";
import { known } from "#doctor/fact.ts";
import type { ClusterFacts } from "#doctor/facts.ts";
import { findLoadBalancers } from "#doctor/load-balancers.ts";
import { PROVIDERS } from "#doctor/providers.ts";
import { useFiles } from "#test/fakes/cli.ts";
import {
  CLUSTERS,
  dumpOf,
  type Expected,
  FIELD_CLUSTERS,
  factsOf,
  kubectlList,
  readWhole,
} from "#test/fakes/cluster-table.ts";
import { type ClusterFile, findingsInFile } from "./read-file.ts";
import { dumpLines, recordCluster } from "./write-dump.ts";

// The doctor's findings on clusters with every provider and implementation that it knows, healthy and broken. Each
// cluster is a dump of the objects in test/sample-clusters, with the result that a probe pod would have there.

/** The check that a table is about; the other checks depend on what is installed. */
const CHECK = "reach";

describe("the doctor's findings", () => {
  const files = useFiles();

  /** Makes a redacted dump from the cluster of a dump. */
  async function redactedText({ head, client, time }: ClusterFile): Promise<string> {
    return [...dumpLines(await recordCluster(client, { ...head, now: time }), true)].join("\n---\n");
  }

  function check(facts: ClusterFacts, expected: Expected): void {
    const findings = examine(facts).filter(({ check }) => check === CHECK);
    const found = [...new Set(findings.map(({ status, code }) => `${status} ${code}`))];
    assert.deepEqual(found.sort(), [...expected.expect].sort());
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

    // Without the kinds of names, a file does not show that nothing needs a mapping.
    const isShown = !expected.expect.includes("ok need-none");
    const shown = isShown ? "the same findings" : "no finding but what is missing";
    it(`${file}, as kubectl prints it: ${shown}`, async () => {
      const cluster = await readWhole(kubectlList(objects), files);
      const all = findingsInFile(cluster, examine(await factsOf(cluster, expected)));
      const found = all.filter(({ check }) => check === CHECK).map(({ status, code }) => `${status} ${code}`);
      const right = isShown ? expected.expect : [];
      assert.deepEqual([...new Set(found)].sort(), [...right, "unknown dump-incomplete"].sort());
    });

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

function providers(): string[] {
  return PROVIDERS.map(({ title }) => title);
}

/** A Service as a file has it. */
interface StoredService {
  readonly kind: string;
  readonly metadata: { readonly namespace: string; readonly name: string; readonly annotations?: object };
  readonly spec: { readonly externalIPs?: readonly string[] };
  readonly status?: { readonly conditions?: readonly { readonly type: string }[] };
}

/** Whether MetalLB or Cilium announces the Service's address, or it is an external one (docs/platforms.md). */
function hasNoIpMode({ kind, metadata, spec, status }: StoredService): boolean {
  const marks = [...Object.keys(metadata.annotations ?? {}), ...(status?.conditions ?? []).map(({ type }) => type)];
  return (
    kind === "Service" && (spec.externalIPs !== undefined || marks.some((mark) => /^(metallb|cilium)\./.test(mark)))
  );
}

/** The wrong cures among all that the doctor suggests; `fixed` are Services that must not get an `ipMode`. */
function wrongCures(facts: ClusterFacts, fixed: readonly string[]): string[] {
  return examine(facts).flatMap(({ subject, cures }) => {
    const isFixed = fixed.some((service) => subject.startsWith(`Service ${service}`));
    return cures.filter(
      (cure) =>
        // Nobody but the provider knows that nothing announces the address.
        (/ip-?mode/i.test(cure) && (isFixed || ![...providers(), "update"].some((start) => cure.startsWith(start)))) ||
        // Discovery is on.
        /config\.targets|add a target/.test(cure),
    );
  });
}

/** The cures for names that DNS leads to an address of a Service of the cluster, each address in turn. */
function curesForNamesInside(facts: ClusterFacts): string[] {
  assert.ok(facts.services.known && facts.names.known);
  const hosts = facts.names.value.names.map(({ name }) => name);
  return facts.services.value
    .flatMap(({ clusterIPs, entries }) => [...clusterIPs, ...entries.flatMap(({ ip }) => ip ?? [])])
    .flatMap((address) => {
      const lookups = hosts.map((name) => ({ name, addresses: [canonicalIp(address)] }));
      const findings = examine({ ...facts, probe: known({ dials: [], lookups }) });
      return findings.flatMap(({ check, cures }) => (check === "names" ? cures : []));
    });
}

describe("the doctor suggests no cure that breaks what works:", () => {
  const files = useFiles();
  const probe = { none: "closed", v1: "answered", v2: "answered", balancer: "closed" };
  for (const { file, objects } of [...CLUSTERS, ...FIELD_CLUSTERS]) {
    it(file, async () => {
      const dump = await dumpOf(objects, files);
      const fixed = (objects as StoredService[])
        .filter(hasNoIpMode)
        .map(({ metadata: { namespace, name } }) => `${namespace}/${name}`);
      const [unseen, cutOff] = [await factsOf(dump, {}), await factsOf(dump, { probe })];
      assert.deepEqual([...wrongCures(unseen, fixed), ...wrongCures(cutOff, fixed)], []);
      assert.deepEqual(curesForNamesInside(unseen), []);
    });
  }
});

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
    for (const status of ["ok need-none", "unknown need-unseen", "unknown need-pending", "broken pods-cut-off"])
      assert.ok(statuses.has(status), status);
  });
});
