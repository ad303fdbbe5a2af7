import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { parseAllDocuments, stringify } from "yaml";
import { KNOWN_SOFTWARE } from "#controller/targets/known-software.ts";
import { examine } from "#doctor/checks.ts";
import type { ClusterFacts } from "#doctor/facts.ts";
import { gather } from "#doctor/gather.ts";
import { known } from "#doctor/known.ts";
import { findLoadBalancers } from "#doctor/load-balancers.ts";
import { planProbe } from "#doctor/probe/plan.ts";
import type { ProbeOutcome } from "#doctor/probe/result.ts";
import { filesFolder } from "#test/fakes/cli.ts";
import { DUMP_VERSION } from "./format.ts";
import { type Dump, readDump } from "./read-dump.ts";
import { dumpLines, recordCluster } from "./write-dump.ts";

// The doctor's findings on clusters of every provider and implementation that it knows, healthy and broken: the
// objects of test/clusters as a dump, and what a probe pod would see there.

const FOLDER = join(import.meta.dirname, "..", "..", "test", "clusters");
const PROVIDERS_FILE = join(import.meta.dirname, "..", "..", "doctor", "providers.ts");
/** What a table is about; the others depend on what is installed. */
const CHECKS: readonly string[] = ["need", "short-circuit", "headers", "self-check"];
/** The API server has cert-manager's kinds throughout, most clusters have no issuer. */
const NO_ISSUER = "self-check-none";
/** Each detail as the probe words it. */
const OUTCOMES: Readonly<Record<string, ProbeOutcome>> = {
  answered: { kind: "answered", detail: "HTTP 404" },
  misread: { kind: "misread", detail: "HTTP 400" },
  closed: { kind: "closed", detail: "the connection was reset" },
  refused: { kind: "refused", detail: "connect ECONNREFUSED" },
  timeout: { kind: "timeout", detail: "no connection within 3 s" },
};

interface Expected {
  readonly title: string;
  /** Where the objects, or their form, are from. */
  readonly source: string;
  readonly objects: "recorded" | "constructed";
  /**
   * The outcome of each dial to the Service, by its header, and of those to the load balancer's address: without a
   * header, and with v1 if that differs. Absent: no probe.
   */
  readonly probe?: Readonly<Record<"none" | "v1" | "v2" | "balancer", string>> & { readonly balancerV1?: string };
  /** Whose own cure is among the cures. */
  readonly provider?: string;
  readonly software?: string;
  /** `status code` of every finding of the checks above, once. */
  readonly expect: readonly string[];
}

const CLUSTERS = readdirSync(FOLDER).map((file) => {
  const documents = parseAllDocuments(readFileSync(join(FOLDER, file), "utf8"));
  const [expected, ...objects] = documents.map((document) => document.toJS() as unknown);
  return { file, expected: expected as Expected, objects };
});

/** What the API server has beside the objects of a cluster, whichever it is: an empty list of issuers. */
const NO_ISSUERS = ["clusterissuers", "issuers"].map((resource) => ({
  apiVersion: DUMP_VERSION,
  kind: "Answer",
  method: "GET",
  path: `/apis/cert-manager.io/v1/${resource}`,
  status: 200,
  body: { metadata: { resourceVersion: "1" }, items: [] },
}));

/** The object as the API server stores it: a Service has a ClusterIP. */
function allocated(object: unknown, index: number): unknown {
  const { kind, spec } = object as { kind: string; spec?: object };
  const clusterIP = `198.51.100.${index + 1}`;
  return kind === "Service" ? { ...(object as object), spec: { clusterIP, clusterIPs: [clusterIP], ...spec } } : object;
}

describe("the doctor's findings", () => {
  let files: Awaited<ReturnType<typeof filesFolder>>;
  before(async () => {
    files = await filesFolder();
  });
  after(() => files.remove());

  async function read(text: string): Promise<Dump> {
    const dump = await readDump(await files.file("cluster.yaml", text));
    assert.deepEqual(dump.leftOut, []);
    return dump;
  }

  async function dumpOf(objects: readonly unknown[]): Promise<Dump> {
    const documents = [{ apiVersion: DUMP_VERSION, kind: "Dump" }, ...NO_ISSUERS, ...objects.map(allocated)];
    return await read(documents.map((document) => stringify(document)).join("---\n"));
  }

  /** A redacted dump of the cluster of a dump. */
  async function redactedText({ head, client, time }: Dump): Promise<string> {
    return [...dumpLines(await recordCluster(client, { ...head, now: time }), true)].join("\n---\n");
  }

  async function factsOf({ head, client, time }: Dump, expected: Expected): Promise<ClusterFacts> {
    const facts = await gather({ client, ...head, now: () => time });
    if (expected.probe === undefined) return facts;
    const { probe } = expected;
    const dials = planProbe(facts).plan.dials.map((dial) => {
      const { balancer, balancerV1 = balancer } = probe;
      const atBalancer = dial.header === "none" ? balancer : balancerV1;
      const outcome = OUTCOMES[dial.via === "balancer" ? atBalancer : probe[dial.header]];
      assert.ok(outcome, `an outcome for ${dial.via} ${dial.header}`);
      return { ...dial, outcome };
    });
    return { ...facts, probe: known({ dials, lookups: [] }) };
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
    it(`${file}: ${expected.title}`, async () => check(await factsOf(await dumpOf(objects), expected), expected));

    it(`${file}, redacted: the same findings`, async () => {
      const dump = await dumpOf(objects);
      const text = await redactedText(dump);
      const redacted = await read(text);
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
  it("has at least thirty, each with its source, and whether its objects are recorded or constructed", () => {
    assert.ok(CLUSTERS.length >= 30, String(CLUSTERS.length));
    for (const { file, expected } of CLUSTERS) {
      assert.match(expected.source, /^https:\/\//, file);
      assert.ok(["recorded", "constructed"].includes(expected.objects), file);
    }
  });

  it("covers every provider and implementation that the doctor knows, and each finding about need", () => {
    const all = (key: "provider" | "software") => new Set(CLUSTERS.flatMap(({ expected }) => expected[key] ?? []));
    assert.deepEqual([...all("provider")].sort(), providers().sort());
    assert.deepEqual([...all("software")].sort(), KNOWN_SOFTWARE.map(({ title }) => title).sort());
    const statuses = new Set(CLUSTERS.flatMap(({ expected }) => expected.expect));
    for (const status of ["ok need-none", "unknown need-unseen", "unknown need-pending", "warning mapping-needed"])
      assert.ok(statuses.has(status), status);
  });
});
