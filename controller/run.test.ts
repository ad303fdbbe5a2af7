import assert from "node:assert/strict";
import { test } from "node:test";
import {
  configMaps,
  controllerRig,
  INGRESSES,
  isPublished,
  LEASE,
  lines,
  NAME,
  OWN,
  putIngress,
  untilPublished,
} from "#test/fakes/controller-rig.ts";
import { until } from "#test/fakes/kube-api.ts";
import { OBJECTS, publishedIn } from "#test/published.ts";

const FRONT = `${OWN}/services/switchback-ingress-nginx`;

/** The value of a metric without labels. */
function metric(text: string, name: string): number {
  return Number(new RegExp(`^${name} (.*)$`, "m").exec(text)?.[1]);
}

test("a leader publishes the map, writes the front, and reports both in its pages", async (t) => {
  const rig = await controllerRig(t, { config: { certs: { mode: "self-signed" } } });
  await untilPublished(rig);
  const certificates = [OBJECTS.ca, OBJECTS.serving].map((name) => `${OWN}/secrets/${name}`);
  await until(() => certificates.every((path) => rig.kube.at(path) !== undefined), "the certificates");
  const map = publishedIn(configMaps(rig.kube));
  assert.deepEqual([[...map.hosts], [...map.holders]], [[[NAME, ["198.51.100.1"]]], [[NAME, "shop"]]]);
  assert.deepEqual(rig.kube.field<{ clusterIPs: string[] }>(FRONT, "spec").clusterIPs, ["198.51.100.1"]);
  assert.equal(rig.kube.field<{ holderIdentity: string }>(LEASE, "spec").holderIdentity, "pod-0");
  const status = await rig.status();
  assert.deepEqual([status.leader, status.identity, status.synced], [true, "pod-0", true]);
  assert.equal(status.revision, map.revision);
  assert.deepEqual(
    status.names.map(({ name, target, addresses, reason }) => ({ name, target, addresses, reason })),
    [{ name: NAME, target: "ingress-nginx", addresses: ["198.51.100.1"], reason: undefined }],
  );
  assert.equal(status.certificates?.mode, "self-signed");
  assert.ok(status.running);
  assert.deepEqual(await rig.page("/readyz"), { status: 200, text: "ok\n" });
  assert.deepEqual(await rig.page("/healthz"), { status: 200, text: "ok\n" });
  const { text } = await rig.page("/metrics");
  assert.ok(metric(text, "switchback_controller_publications_total") >= 1);
  assert.ok(metric(text, "switchback_controller_published_bytes_total") >= lines(rig).length);
  assert.ok(metric(text, "switchback_controller_publish_lag_seconds_count") >= 1);
  assert.ok(metric(text, "switchback_controller_publish_lag_seconds_sum") < 20, "seconds, not milliseconds");
  assert.equal(metric(text, "switchback_controller_publish_failures_total"), 0);
  assert.equal(metric(text, "switchback_controller_leader"), 1);
  assert.match(text, /^switchback_certificate|^switchback_.*cert/m);
  assert.match(text, /^# HELP switchback_.*restart/m);
  const listening = rig.log.lines.find(({ message }) => message === "listening");
  assert.deepEqual(listening?.fields, { port: rig.port, namespace: "switchback-system" });
  assert.ok(rig.log.messages.includes("map published"));
});

test("stopping releases the Lease, ends every watch and closes the port", async (t) => {
  const rig = await controllerRig(t, {
    config: {
      certs: { mode: "self-signed" },
      policy: { namespaceAnnotation: true },
      restart: { namespaces: ["shop"] },
      sources: { gateway: { enabled: true }, services: { enabled: true } },
      targets: [
        { name: "plain", upstream: { service: { namespace: "a", name: "b" } }, ports: [{ port: 1, protocol: "none" }] },
      ],
    },
  });
  await until(() => rig.kube.watched.includes("/api/v1/pods"), "the leader's watches");
  await until(() => rig.kube.watched.includes(`${OWN}/secrets`), "the certificates' watches");
  await rig.stop();
  assert.deepEqual(rig.kube.watched, []);
  assert.equal(rig.kube.field<{ holderIdentity: string }>(LEASE, "spec").holderIdentity || undefined, undefined);
  await assert.rejects(rig.page("/healthz"));
});

for (const [what, path, text] of [
  ["a source", INGRESSES, "not synced: ingresses\n"],
  ["our own objects", `${OWN}/configmaps`, "not synced: own objects\n"],
] as const) {
  test(`while ${what} has not been read, the controller is not ready, reports it, and publishes nothing`, async (t) => {
    let speak = () => {};
    const rig = await controllerRig(t, {
      prepare: (kube) => {
        speak = kube.hold(path);
        putIngress(kube, [NAME]);
      },
    });
    await until(() => rig.kube.watched.includes("/api/v1/services"), "the other watches");
    await until(() => rig.kube.at(LEASE) !== undefined, "the Lease");
    let page = await rig.page("/readyz");
    while (page.text !== text) page = await rig.page("/readyz");
    assert.equal(page.status, 503);
    assert.equal((await rig.page("/healthz")).status, 200);
    assert.equal((await rig.status()).synced, false);
    assert.equal(isPublished(rig), false);
    speak();
    await untilPublished(rig);
    assert.equal((await rig.page("/readyz")).status, 200);
  });
}

test("a controller neither reads nor writes while another holds the Lease, and leads again afterwards", async (t) => {
  const rig = await controllerRig(t, { config: { restart: { namespaces: ["shop"] } } });
  await untilPublished(rig);
  await until(() => rig.kube.watched.includes("/api/v1/pods"), "the leader's watches");
  const lease = rig.kube.at(LEASE);
  const renewTime = "2099-01-01T00:00:00.000000Z";
  const spec = (holderIdentity: string) => ({ holderIdentity, renewTime, leaseDurationSeconds: 3_600 });
  rig.kube.put(LEASE, { ...lease, spec: spec("pod-1") });
  await until(() => !rig.kube.watched.includes("/api/v1/pods"), "the end of the leader's watches");
  let status = await rig.status();
  while (status.running !== undefined) status = await rig.status();
  assert.equal(status.leader, false);
  assert.equal(status.certificates, undefined);
  assert.equal(metric((await rig.page("/metrics")).text, "switchback_controller_leader"), 0);
  assert.deepEqual([status.names, status.sources], [[], []], "a follower knows nothing about names");
  assert.equal((await rig.page("/readyz")).status, 200);
  const writes = rig.kube.writes.length;
  putIngress(rig.kube, [NAME, "new.example.com"]);
  rig.kube.remove(FRONT);
  await until(() => !rig.kube.watched.includes(INGRESSES), "the end of its watches");
  assert.deepEqual(rig.kube.watched, []);
  assert.deepEqual(
    rig.kube.writes.slice(writes).filter(({ path }) => path.startsWith(OWN)),
    [],
  );
  rig.kube.put(LEASE, { ...lease, spec: spec("") });
  await untilPublished(rig, "new.example.com");
  await until(async () => (await rig.status()).leader, "the page of a leader");
});

test("a watch that is inactive for minutes fails the liveness probe", async (t) => {
  // The election must not look at the clock meanwhile: the Lease would be over.
  const rig = await controllerRig(t, { config: { controller: { leaseSeconds: 60 } } });
  await untilPublished(rig);
  const { now } = performance;
  t.mock.method(performance, "now", () => now.call(performance) + 200_000);
  const page = await rig.page("/healthz");
  assert.equal(page.status, 503);
  assert.match(page.text, /^a watch has been inactive for 2\d\d s\n$/);
  t.mock.restoreAll();
});

test("without discovery, targets are resolved by class only, fronts are written, and no Service is read", async (t) => {
  const upstream = { service: { namespace: "ingress-nginx", name: "ingress-nginx-controller" } };
  const targets = [
    { name: "nginx", upstream, classes: ["nginx"] },
    { name: "other", upstream, classes: ["other"] },
  ];
  const rig = await controllerRig(t, { config: { targets, discovery: { enabled: false } } });
  await untilPublished(rig);
  assert.deepEqual(
    (await rig.status()).names.map(({ target }) => target),
    ["nginx"],
  );
  assert.deepEqual(
    rig.kube.paths(`${OWN}/services`).map((path) => path.split("/").at(-1)),
    ["switchback-nginx", "switchback-other"],
  );
  assert.ok(!rig.kube.watched.includes("/api/v1/services"));
});
