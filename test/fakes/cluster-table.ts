import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseAllDocuments, stringify } from "yaml";
import { type ClusterFile, readClusterFile } from "#cli/dump/read-file.ts";
import { DUMP_VERSION, KINDS } from "#cli/dump/schemas.ts";
import { known } from "#doctor/fact.ts";
import type { ClusterFacts } from "#doctor/facts.ts";
import { gather } from "#doctor/gather.ts";
import { planProbe } from "#doctor/probe/plan.ts";
import type { ProbeOutcome } from "#doctor/probe/result.ts";
import type { filesFolder } from "./cli.ts";

// Healthy and broken clusters of every provider and implementation that the doctor knows. Each has the objects of a
// file in test/sample-clusters as a dump, and the results that a probe pod would get there.

const FOLDER = join(import.meta.dirname, "..", "sample-clusters");
const FIELD_CASES = join(import.meta.dirname, "..", "field-cases");
/** Each detail in the words of the probe. */
const OUTCOMES: Readonly<Record<string, ProbeOutcome>> = {
  answered: { kind: "answered", detail: "HTTP 404" },
  misread: { kind: "misread", detail: "HTTP 400" },
  closed: { kind: "closed", detail: "the connection was reset" },
  refused: { kind: "refused", detail: "connect ECONNREFUSED" },
  timeout: { kind: "timeout", detail: "no connection within 3 s" },
};

export interface Expected {
  readonly title: string;
  /** Source of the objects, or of their form. */
  readonly source: string;
  readonly objects: "recorded" | "constructed";
  /**
   * The outcomes of dials to the Service, by header, and of dials to the load balancer's address. The latter are
   * without a header, and with v1 if that outcome differs. Undefined: no probe.
   */
  readonly probe?: Readonly<Record<"none" | "v1" | "v2" | "balancer", string>> & { readonly balancerV1?: string };
  /** The provider whose own cure is among the cures. */
  readonly provider?: string;
  readonly software?: string;
  /** `status code` of each finding of the checks that cli/dump/clusters.test.ts compares, once. */
  readonly expect: readonly string[];
}

export const CLUSTERS = clustersIn<Expected>(FOLDER);
/** The clusters of controller/field-cases.test.ts. */
export const FIELD_CLUSTERS = clustersIn<unknown>(FIELD_CASES);

function clustersIn<T>(folder: string) {
  return readdirSync(folder).map((file) => {
    const documents = parseAllDocuments(readFileSync(join(folder, file), "utf8"));
    const [expected, ...objects] = documents.map((document) => document.toJS() as unknown);
    return { file, expected: expected as T, objects };
  });
}

/** The groups whose kinds every cluster of a case has, with or without objects. */
const LISTED_GROUPS =
  /^$|^apps$|^cert-manager\.io$|^(?:networking|discovery|coordination|admissionregistration)\.k8s\.io$/;

/** What a dump says of the kinds that were listed. */
export const LISTED = [...KINDS.keys()].flatMap((type) => {
  const [resource = "", ...labels] = type.split(".");
  const group = labels.join(".");
  const path = group === "" ? `/api/v1/${resource}` : `/apis/${group}/v1/${resource}`;
  return LISTED_GROUPS.test(group)
    ? [{ apiVersion: DUMP_VERSION, kind: "Answer", method: "GET", path, status: 200 }]
    : [];
});

/** The object as the API server stores it, with a ClusterIP if it is a Service. */
function allocated(object: unknown, index: number): unknown {
  const { kind, spec } = object as { kind: string; spec?: object };
  const clusterIP = `198.51.100.${index + 1}`;
  return kind === "Service" ? { ...(object as object), spec: { clusterIP, clusterIPs: [clusterIP], ...spec } } : object;
}

type Files = ReturnType<typeof filesFolder>;

/** Reads a dump, and checks that it leaves nothing out. */
export async function readWhole(text: string, files: Files): Promise<ClusterFile> {
  const dump = await readClusterFile(await files.file("cluster.yaml", text));
  assert.deepEqual(dump.leftOut, []);
  return dump;
}

/** A dump of a cluster with these objects. */
export async function dumpOf(objects: readonly unknown[], files: Files): Promise<ClusterFile> {
  const documents = [{ apiVersion: DUMP_VERSION, kind: "Dump" }, ...LISTED, ...objects.map(allocated)];
  return await readWhole(documents.map((document) => stringify(document)).join("---\n"), files);
}

/** What `kubectl get namespaces,... -A -o yaml` prints of a cluster with these objects. */
export function kubectlList(objects: readonly unknown[]): string {
  const names = (objects as { metadata: { namespace?: string } }[]).flatMap(({ metadata }) => metadata.namespace ?? []);
  const namespaces = Array.from(new Set(names), (name) => ({
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name },
  }));
  const items = [...namespaces, ...objects.map(allocated)];
  return stringify({ apiVersion: "v1", items, kind: "List", metadata: { resourceVersion: "" } }, { indentSeq: false });
}

/** The facts that the doctor reads from the dump, with the expected results of the probe if there are any. */
export async function factsOf(
  { head, client, time }: ClusterFile,
  expected: Pick<Expected, "probe">,
): Promise<ClusterFacts> {
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
