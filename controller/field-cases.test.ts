import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { parseAllDocuments } from "yaml";
import { pluralOf } from "#cli/dump/object-paths.ts";
import type { HeaderAnswer } from "#lib/documents/header-answers.ts";
import { answeringProxy, type GivenAnswer, putProxy } from "#test/fakes/answering-proxy.ts";
import { configMaps, controllerRig, untilPublished } from "#test/fakes/controller-rig.ts";
import { ipv4Answers, startDnsServer } from "#test/fakes/dns-server.ts";
import { until } from "#test/fakes/kube-api.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { type HeaderQuestion, OBJECTS, questionsIn } from "#test/published.ts";
import type { StatusDocument } from "./status.ts";

// Clusters from public bug reports and from the documentation of other projects. Each case says which names have to
// be mapped, and where to. Each file of test/field-cases is one case. We wrote its first document; the others are the
// objects of the cluster.

const FOLDER = join(import.meta.dirname, "..", "test", "field-cases");

/** Cases with a wrong result today. Remove a case from this list once its result is right. */
const NOT_YET: ReadonlySet<string> = new Set();

interface Case {
  readonly config?: Readonly<Record<string, unknown>>;
  /** What the cluster's DNS answers, if the case depends on it. */
  readonly dns?: Readonly<Record<string, string>>;
  /** By Service: the ingress controller's answer when a proxy asks it. Default: it demands v1. */
  readonly answers?: Readonly<Record<string, HeaderAnswer>>;
  /**
   * By name: the configured target or the Service, and the ports to relay. A port may include its protocol, such as
   * `443/v1`.
   */
  readonly mapped: Readonly<Record<string, string>>;
  readonly notMapped?: readonly string[];
  /** By unmapped name: the code of its reason. */
  readonly reasons?: Readonly<Record<string, string>>;
  /** By name: the code of its warning. */
  readonly warned?: Readonly<Record<string, string>>;
}

/** An object, written as in a manifest. */
interface Item {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly namespace?: string; readonly name: string };
}

for (const file of globSync("*.yaml", { cwd: FOLDER }).sort()) {
  const [given, ...objects] = parseAllDocuments(readFileSync(join(FOLDER, file), "utf8")).map((one) => one.toJS());
  test(`${file}${NOT_YET.has(file) ? " (not yet)" : ""}`, async (t) => {
    const found = await mappedNames(t, given as Case, objects);
    const right = rightNames(given as Case);
    if (NOT_YET.has(file)) assert.notDeepEqual(found, right, "right by now: remove it from NOT_YET");
    else assert.deepEqual(found, right);
  });
}

function rightNames({ mapped, notMapped = [], warned = {}, reasons = {} }: Case): Record<string, string> {
  const right = Object.entries(mapped).map(([name, where]) => [name, withCode(where, warned[name])] as const);
  return sorted([...right, ...notMapped.map((name) => [name, withCode("not mapped", reasons[name])] as const)]);
}

function withCode(where: string, code: string | undefined): string {
  return code === undefined ? where : `${where}, ${code}`;
}

/** Returns how the controller maps the names of a case once it has read all objects and received all answers. */
async function mappedNames(t: TestContext, given: Case, objects: readonly Item[]): Promise<Record<string, string>> {
  const policy = given.dns && { verifyDns: "auto", dnsServers: [await dnsServer(t, given.dns)] };
  const kube = new MemoryKube();
  // No case has these addresses.
  kube.serviceRange = "10.111.222";
  let reads = 0;
  const healthPort = await answeringProxy(t, {
    answers: () => {
      reads += 1;
      return questionsIn(configMaps(kube)).map((question) => answerTo(question, given));
    },
    listening: () => questionsIn(configMaps(kube)).map(({ target }) => target),
  });
  const rig = await controllerRig(t, {
    kube,
    config: {
      ...given.config,
      policy,
      sources: { gateway: { enabled: true }, ...(given.config?.sources as object) },
      discovery: { detect: true, ...(given.config?.discovery as object) },
      proxy: { healthPort },
    },
    upstream: false,
    prepare: () => {
      putProxy(kube);
      for (const object of objects) put(kube, object);
    },
  });
  await untilPublished(rig, "");
  const right = rightNames(given);
  for (let tries = 0; ; tries += 1) {
    const status = await rig.status();
    const found = namesIn(status, given);
    for (const name of given.notMapped ?? []) assert.match(found[name] ?? "", /^not mapped/);
    const isSettled =
      status.names.every(({ reason }) => reason?.code !== "dns-not-verified") &&
      questionsIn(configMaps(kube)).every(({ answer }) => answer !== undefined);
    if (tries > 250) return found;
    if (isSettled && isDeepStrictEqual(found, right)) break;
    await setTimeout(20);
  }
  // It stays like that: no answer is forgotten and asked again. The fronts get their addresses first.
  const written = () => kube.writes.filter(({ path }) => path.endsWith(OBJECTS.targets)).length;
  const more = async (from = reads) => await until(() => reads >= from + 6, "the proxy to be read again");
  await more();
  const before = written();
  await more();
  assert.equal(written(), before);
  return namesIn(await rig.status(), given);
}

function namesIn({ names, targets }: Pick<StatusDocument, "names" | "targets">, given: Case): Record<string, string> {
  return sorted(
    Object.keys(rightNames(given)).map((name) => {
      const mapped = names.find((one) => one.name === name && one.target !== undefined);
      const target = targets.find((one) => one.name === mapped?.target);
      if (target === undefined) {
        const reason = given.reasons?.[name] && names.find((one) => one.name === name)?.reason?.code;
        return [name, withCode("not mapped", reason)];
      }
      const [where = "", ...ports] = (given.mapped[name] ?? "").split(" ");
      const has = (port: string) =>
        target.ports.some((one) => [`${one.port}`, `${one.port}/${one.protocol}`].includes(port));
      const found = [where.includes("/") ? target.upstream : target.name, ...ports.filter(has)].join(" ");
      const warning = given.warned === undefined ? undefined : mapped?.warning?.code;
      return [name, withCode(found, warning)];
    }),
  );
}

function answerTo({ target, port, upstream }: HeaderQuestion, { answers = {} }: Case): GivenAnswer {
  const [service, namespace] = upstream.split(".");
  const answer = answers[`${namespace}/${service}`] ?? "demands-v1";
  return { target, port, answer };
}

async function dnsServer(t: TestContext, records: Readonly<Record<string, string>>): Promise<string> {
  const dns = await startDnsServer(ipv4Answers(new Map(Object.entries(records))));
  t.after(() => dns.close());
  return dns.address;
}

/** Writes an object, and lists its kind in the discovery documents of the API server. */
function put(kube: MemoryKube, { apiVersion, kind, metadata, ...rest }: Item): void {
  const resource = pluralOf(kind);
  const collection = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  const { namespace, name } = metadata;
  kube.put(`${collection}/${namespace === undefined ? "" : `namespaces/${namespace}/`}${resource}/${name}`, {
    metadata: { creationTimestamp: "2026-01-01T00:00:00Z", ...metadata },
    ...rest,
  });
  const [group = "", version] = apiVersion.split("/");
  if (version !== undefined) kube.documents.set(`/apis/${group}`, { versions: [{ version }] });
  const { resources = [] } = (kube.documents.get(collection) ?? {}) as { resources?: object[] };
  kube.documents.set(collection, {
    resources: [...resources, { name: resource, kind, verbs: ["list", "watch", "create"] }],
  });
}

function sorted(entries: readonly (readonly [string, string])[]): Record<string, string> {
  return Object.fromEntries(entries.toSorted(([one], [other]) => (one < other ? -1 : 1)));
}
