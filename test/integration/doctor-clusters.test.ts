import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { parseAllDocuments } from "yaml";
import { examine } from "#doctor/checks.ts";
import type { ClusterFacts } from "#doctor/facts.ts";
import { gather } from "#doctor/gather.ts";
import { known } from "#doctor/known.ts";
import { KNOWN_SOFTWARE } from "#doctor/known-software.ts";
import { findLoadBalancers } from "#doctor/load-balancers.ts";
import { planProbe } from "#doctor/probe/plan.ts";
import type { ProbeOutcome } from "#doctor/probe/result.ts";
import { type ConnectedClient, connect } from "#lib/kube/connect.ts";
import { gatewayApiDefinitions } from "../cluster/addons/gateway-api.ts";
import { type ControlPlane, startControlPlane } from "../cluster/controlplane.ts";

// The doctor's findings on clusters of every provider and implementation that it knows, healthy and broken: the
// objects of test/clusters on a real API server, and what a probe pod would see there.

const FOLDER = join(import.meta.dirname, "..", "clusters");
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
   * The outcome of each dial to the Service, by its header, and of the one to the load balancer's address; absent:
   * no probe.
   */
  readonly probe?: Readonly<Record<"none" | "v1" | "v2" | "balancer", string>>;
  /** Whose own cure is among the cures. */
  readonly provider?: string;
  readonly software?: string;
  /** `status code` of every finding of the checks above, once. */
  readonly expect: readonly string[];
}

interface ClusterObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly namespace?: string; readonly name: string };
  readonly status?: object;
}

const CLUSTERS = readdirSync(FOLDER).map((file) => {
  const documents = parseAllDocuments(readFileSync(join(FOLDER, file), "utf8"));
  const [expected, ...objects] = documents.map((document) => document.toJS() as unknown);
  return { file, expected: expected as Expected, objects: objects as ClusterObject[] };
});

const PLURALS: Readonly<Record<string, string>> = {
  Service: "services",
  Node: "nodes",
  Ingress: "ingresses",
  Gateway: "gateways",
  ClusterIssuer: "clusterissuers",
};

function pathOf({ apiVersion, kind, metadata: { namespace, name } }: ClusterObject): string {
  const root = apiVersion === "v1" ? "/api/v1" : `/apis/${apiVersion}`;
  return `${root}${namespace === undefined ? "" : `/namespaces/${namespace}`}/${PLURALS[kind]}/${name}`;
}

/** cert-manager's kinds of issuers, without their schema. */
function issuerDefinition(kind: string, plural: string, scope: string): object {
  const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.cert-manager.io` },
    spec: {
      group: "cert-manager.io",
      scope,
      names: { kind, plural },
      versions: [{ name: "v1", served: true, storage: true, schema }],
    },
  };
}

describe("the doctor's findings", () => {
  let cluster: ControlPlane;
  let client: ConnectedClient;
  before(async () => {
    cluster = await startControlPlane({ controllerManager: false });
    client = await connect({ kubeconfig: cluster.adminKubeconfig, userAgent: "test" });
    const issuers = [
      issuerDefinition("ClusterIssuer", "clusterissuers", "Cluster"),
      issuerDefinition("Issuer", "issuers", "Namespaced"),
    ];
    const names = new Set(
      CLUSTERS.flatMap(({ objects }) => objects.flatMap(({ metadata }) => metadata.namespace ?? [])),
    );
    const namespaces = [...names].map((name) => ({ apiVersion: "v1", kind: "Namespace", metadata: { name } }));
    const input = [
      await gatewayApiDefinitions(["gateways"]),
      ...[...issuers, ...namespaces].map((it) => JSON.stringify(it)),
    ];
    const { code, stderr } = await cluster.tool("kubectl", ["apply", "--server-side", "-f", "-"], {
      input: input.join("\n---\n"),
    });
    assert.equal(code, 0, stderr);
    await cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all");
  });
  after(async () => {
    await client?.close();
    await cluster?.stop();
  });

  async function apply(object: ClusterObject): Promise<void> {
    const { status, ...rest } = object;
    const patch = async (path: string, body: object) => {
      const query = "fieldManager=test&force=true";
      const contentType = "application/apply-patch+yaml";
      const answer = await cluster.call({ method: "PATCH", path: `${path}?${query}`, contentType, body });
      assert.ok(answer.status < 300, `${path}: ${JSON.stringify(answer.body)}`);
    };
    await patch(pathOf(object), rest);
    const { apiVersion, kind, metadata } = object;
    if (status !== undefined) await patch(`${pathOf(object)}/status`, { apiVersion, kind, metadata, status });
  }

  async function factsOf(expected: Expected): Promise<ClusterFacts> {
    const facts = await gather({ client, namespace: "switchback-system", probeNamespace: "default", now: Date.now });
    if (expected.probe === undefined) return facts;
    const { probe } = expected;
    const dials = planProbe(facts).dials.map((dial) => {
      const outcome = OUTCOMES[dial.via === "balancer" ? probe.balancer : probe[dial.header]];
      assert.ok(outcome, `an outcome for ${dial.via} ${dial.header}`);
      return { ...dial, outcome };
    });
    return { ...facts, probe: known({ dials, lookups: [] }) };
  }

  for (const { file, expected, objects } of CLUSTERS) {
    it(`${file}: ${expected.title}`, async () => {
      for (const object of objects) await apply(object);
      try {
        const facts = await factsOf(expected);
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
      } finally {
        for (const object of objects) await cluster.call({ method: "DELETE", path: pathOf(object) });
      }
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
