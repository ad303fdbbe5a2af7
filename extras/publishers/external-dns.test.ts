import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { settingsOf } from "#lib/config/sections.ts";
import { MemoryKube, refusal } from "#test/fakes/memory-kube.ts";
import { PUBLISHERS_SECTION } from "./config.ts";
import { ExternalDnsPublisher } from "./external-dns.ts";
import type { PublisherMap } from "./publisher-map.ts";

const ENDPOINTS = "/apis/externaldns.k8s.io/v1alpha1/namespaces/ours/dnsendpoints";
const SERVICES = "/api/v1/namespaces/ours/services";

function mapOf(...entries: Array<readonly [string, ...string[]]>): PublisherMap {
  return { revision: entries.join(), entries: entries.map(([name, ...addresses]) => [name, addresses] as const) };
}

const A = ["a.example.com", "198.51.100.1"] as const;
const B = ["b.example.com", "198.51.100.2", "2001:db8::2"] as const;

function rig(settings: object = {}, services: object = {}) {
  const kube = new MemoryKube();
  const externalDns = { removeWaitSeconds: 0, ...settings };
  const config = parseConfig({ publishers: { externalDns }, sources: { services } }, [PUBLISHERS_SECTION]);
  const publishers = settingsOf(config, PUBLISHERS_SECTION);
  const { annotationPrefixes } = config.sources.services;
  const { client } = kube;
  const deps = { namespace: "ours", client, annotationPrefixes };
  const start = () => new ExternalDnsPublisher(publishers.externalDns, deps);
  return { kube, start, publisher: start() };
}

test("names become DNSEndpoints, with A and AAAA, the TTL and the configured labels", async () => {
  const { kube, publisher } = rig({
    ttlSeconds: 30,
    labels: { team: "dns", "switchback.dev/publisher": "other" },
    annotations: { instance: "private" },
    recordLabels: { from: "switchback" },
  });
  assert.deepEqual(await publisher.publish(mapOf(A, B)), { names: 2, leftOut: 0 });
  const [path = ""] = kube.paths(ENDPOINTS);
  const labels = { from: "switchback" };
  const record = { recordTTL: 30, labels };
  assert.deepEqual(kube.at(path)?.spec, {
    endpoints: [
      { dnsName: A[0], recordType: "A", targets: [A[1]], ...record },
      { dnsName: B[0], recordType: "A", targets: [B[1]], ...record },
      { dnsName: B[0], recordType: "AAAA", targets: [B[2]], ...record },
    ],
  });
  const { metadata } = kube.at(path) ?? {};
  assert.deepEqual(metadata?.labels, {
    team: "dns",
    "app.kubernetes.io/name": "switchback",
    "switchback.dev/publisher": "external-dns",
  });
  assert.equal(metadata?.annotations?.instance, "private");
  assert.match(path, /\/switchback-names-0$/);
});

test("Services get annotations with the configured prefixes", async () => {
  const annotationPrefixes = ["internal.example.com/"];
  const { kube, publisher } = rig({ kind: "Service" }, { annotationPrefixes });
  await publisher.publish(mapOf(A));
  const [path = ""] = kube.paths(SERVICES);
  const keys = Object.keys(kube.at(path)?.metadata.annotations ?? {}).filter((key) => !key.startsWith("switchback"));
  assert.deepEqual(
    keys.sort(),
    ["hostname", "target", "ttl"].map((key) => `internal.example.com/${key}`),
  );
});

test("names become headless Services, one for each set of addresses, with annotations of both prefixes", async () => {
  const { kube, publisher } = rig({ kind: "Service" });
  const C = ["c.example.com", "198.51.100.1"] as const;
  await publisher.publish(mapOf(A, B, C));
  const found = kube.paths(SERVICES).map((path) => kube.at(path));
  const hosts = found.map((object) => object?.metadata.annotations?.["external-dns.kubernetes.io/hostname"]).sort();
  assert.deepEqual(hosts, ["a.example.com,c.example.com", "b.example.com"]);
  for (const object of found) {
    const { annotations = {} } = object?.metadata ?? {};
    for (const key of ["hostname", "target", "ttl"])
      assert.equal(
        annotations[`external-dns.alpha.kubernetes.io/${key}`],
        annotations[`external-dns.kubernetes.io/${key}`],
      );
    const { clusterIP, selector } = (object?.spec ?? {}) as { clusterIP?: string; selector?: unknown };
    assert.deepEqual([clusterIP, selector], ["None", undefined]);
  }
});

test("the same map writes nothing, one more name writes one object, and a deleted object is restored", async () => {
  const { kube, publisher } = rig();
  await publisher.publish(mapOf(A, B));
  const before = kube.writes.length;
  await publisher.publish(mapOf(A, B));
  assert.equal(kube.writes.length, before);
  await publisher.publish(mapOf(A, B, ["c.example.com", "198.51.100.1"]));
  assert.deepEqual([kube.writes.length, kube.writes.at(-1)?.fieldManager], [before + 1, "switchback-external-dns"]);
  const [path = ""] = kube.paths(ENDPOINTS);
  kube.remove(path);
  await publisher.publish(mapOf(A, B, ["c.example.com", "198.51.100.1"]));
  assert.deepEqual(kube.paths(ENDPOINTS), [path]);
});

test("an object that somebody edits is written again", async () => {
  const { kube, publisher } = rig({ kind: "Service" });
  await publisher.publish(mapOf(A));
  const [path = ""] = kube.paths(SERVICES);
  const object = kube.at(path);
  kube.put(path, { ...object, metadata: { ...object?.metadata, annotations: {} } });
  await publisher.publish(mapOf(A));
  const hosts = kube.paths(SERVICES).map((each) => kube.at(each)?.metadata.annotations);
  assert.deepEqual([hosts.length, hosts[0]?.["external-dns.kubernetes.io/hostname"]], [1, A[0]]);
});

test("for more names, new objects come before names leave old ones; for fewer names, objects go last", async () => {
  const { kube, publisher, start } = rig();
  const many = (count: number) =>
    mapOf(...Array.from({ length: count }, (_, index) => [`n${index}.example.com`, "198.51.100.1"] as const));
  await publisher.publish(many(100));
  const before = kube.writes.length;
  await publisher.publish(many(1_000));
  const kinds = kube.writes.slice(before).map(({ method }) => method);
  assert.deepEqual(kinds, [...Array<string>(7).fill("CREATE"), "APPLY"]);
  assert.equal(kube.paths(ENDPOINTS).length, 8);
  const again = start();
  await again.publish(many(400));
  assert.equal(kube.paths(ENDPOINTS).length, 8, "kept, since they exist");
  const written = kube.writes.length;
  await again.publish(many(10));
  const later = kube.writes.slice(written).map(({ method }) => method);
  assert.deepEqual(later, ["APPLY", ...Array<string>(7).fill("DELETE")]);
});

test("if some writes are refused, the next publication writes what is missing", async () => {
  const { kube, publisher } = rig();
  const many = mapOf(
    ...Array.from({ length: 1_000 }, (_, index) => [`n${index}.example.com`, "198.51.100.1"] as const),
  );
  let writes = 0;
  kube.onWrite = ({ path }) => {
    writes += 1;
    if (writes > 3) throw refusal(path, 500);
  };
  await assert.rejects(publisher.publish(many));
  assert.equal(kube.paths(ENDPOINTS).length, 3);
  kube.onWrite = () => {};
  const before = kube.writes.length;
  assert.deepEqual(await publisher.publish(many), { names: 1_000, leftOut: 0 });
  assert.deepEqual([kube.paths(ENDPOINTS).length, kube.writes.length - before], [8, 5]);
});

test("without the definition of DNSEndpoint, nothing is written and a code says why; a retry succeeds", async () => {
  const { kube, publisher } = rig();
  kube.onRead = (path) => {
    throw refusal(path, 404);
  };
  const outcome = await publisher.publish(mapOf(A));
  assert.deepEqual([outcome.problem?.code, outcome.refused, kube.writes], ["external-dns-no-crd", true, []]);
  await publisher.remove();
  kube.onRead = () => {};
  assert.deepEqual(await publisher.publish(mapOf(A)), { names: 1, leftOut: 0 });
});

test("somebody else's object with a name of ours is not changed", async () => {
  const { kube, publisher } = rig();
  kube.put(`${ENDPOINTS}/switchback-names-0`, { spec: { endpoints: [] } });
  kube.onWrite = ({ method, path }) => {
    if (method === "CREATE") throw refusal(path, 409);
  };
  const outcome = await publisher.publish(mapOf(A, B));
  assert.deepEqual([outcome.names, outcome.leftOut, outcome.problem?.code], [0, 2, "external-dns-foreign"]);
  assert.deepEqual(kube.at(`${ENDPOINTS}/switchback-names-0`)?.spec, { endpoints: [] });
});

test("removal deletes only our objects, and a second removal changes nothing", async () => {
  const { kube, publisher } = rig();
  await publisher.publish(mapOf(A));
  kube.put(`${ENDPOINTS}/somebodys`, { metadata: { labels: { "switchback.dev/publisher": "x" } } });
  await publisher.remove();
  assert.deepEqual(kube.paths(ENDPOINTS), [`${ENDPOINTS}/somebodys`]);
  const writes = kube.writes.length;
  await publisher.remove();
  assert.equal(kube.writes.length, writes);
});
