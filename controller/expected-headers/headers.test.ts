import assert from "node:assert/strict";
import { test } from "node:test";
import { foundName } from "#controller/targets/service-view.ts";
import { configMaps, controllerRig, lines, NAME, putIngress } from "#test/fakes/controller-rig.ts";
import { headerRig } from "#test/fakes/header-rig.ts";
import { until } from "#test/fakes/kube-api.ts";
import type { MemoryKube } from "#test/fakes/memory-kube.ts";
import { targetsIn } from "#test/published.ts";

// The controller with one proxy, whose answers the test sets: for a discovered target, and for a configured one.

const FOUND = foundName("edge", "lb");
const NAMED = "ingress-nginx";
const AUTO = [80, 443].map((port) => ({ port, protocol: "auto" }));
const upstream = { service: { namespace: "ingress-nginx", name: "ingress-nginx-controller" } };
const CONFIGURED = { targets: [{ name: NAMED, upstream, ports: AUTO }] };

type Annotations = Readonly<Record<string, string>>;

function putService(kube: MemoryKube, path: string, ip: string, ports: readonly number[], annotations: Annotations) {
  kube.put(`/api/v1/namespaces/${path}`, {
    metadata: { creationTimestamp: "2026-01-01T00:00:00Z", annotations },
    spec: { type: "LoadBalancer", clusterIPs: ["198.51.100.80"], ports: ports.map((port) => ({ port })) },
    status: { loadBalancer: { ingress: [{ ip }] } },
  });
}

/** The Service of the discovered target, and an Ingress with its address. */
const withBalancer = (annotations: Annotations) => (kube: MemoryKube) => {
  putService(kube, "edge/services/lb", "192.0.2.81", [443], annotations);
  kube.put("/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web", {
    metadata: { creationTimestamp: "2026-01-01T00:00:00Z" },
    spec: { ingressClassName: "edge", rules: [{ host: NAME }] },
    status: { loadBalancer: { ingress: [{ ip: "192.0.2.81" }] } },
  });
};

const putNginx = (kube: MemoryKube, annotations: Annotations) =>
  putService(kube, "ingress-nginx/services/ingress-nginx-controller", "192.0.2.80", [80, 443], annotations);

/** The Service of the configured target, and an Ingress of its class. */
const withNginx = (annotations: Annotations) => (kube: MemoryKube) => {
  putNginx(kube, annotations);
  putIngress(kube, [NAME]);
};

const found = { upstream: false, prepare: withBalancer({}) };
const configured = { upstream: false, config: CONFIGURED, prepare: withNginx({}) };

test("names of a discovered target wait for an answer, and follow each later one", async (t) => {
  const rig = await headerRig(t, found);
  await rig.untilAsked(1);
  const [{ name, namespace, answer } = {}] = rig.questions();
  assert.deepEqual([name, namespace, answer], [NAME, "edge", undefined]);
  assert.equal(targetsIn(configMaps(rig.kube)).proxies?.length, 1);
  await rig.untilReason("header-unknown");
  assert.deepEqual([lines(rig), rig.published()], ["", {}]);

  rig.answer(FOUND, "demands-either", 443);
  await until(() => lines(rig).includes(NAME), "the name to be mapped");
  await rig.untilReason(undefined);
  const { targets } = await rig.status();
  assert.deepEqual(targets.find((target) => target.name === FOUND)?.ports, [
    { port: 443, protocol: "v1", asked: { answer: "demands-either" } },
  ]);
  rig.answer(FOUND, "refuses-header", 443);
  await rig.untilReason("header-not-expected");
  await until(() => !lines(rig).includes(NAME), "the name to go");
  rig.answer(FOUND, "demands-v2", 443);
  await until(() => lines(rig).includes(NAME), "the name to be mapped again");
});

test("names of a configured target do so too; proxies go on relaying for pods that hold its address", async (t) => {
  const rig = await headerRig(t, configured);
  await rig.untilAsked(2);
  assert.deepEqual(
    rig.questions().map(({ upstream: host, upstreamIPs, namespace }) => [host, upstreamIPs, namespace]),
    [1, 2].map(() => ["ingress-nginx-controller.ingress-nginx.svc.cluster.local.", undefined, "ingress-nginx"]),
  );
  await rig.untilReason("header-unknown");
  assert.deepEqual([lines(rig), rig.published()], ["", {}]);
  rig.answer(NAMED, "demands-v2", 80, 443);
  await until(() => lines(rig).includes(NAME), "the name to be mapped");
  assert.deepEqual(rig.published(), { [NAMED]: "80 v2, 443 v2" });
  rig.answer(NAMED, "refuses-header", 80, 443);
  await rig.untilReason("header-not-expected");
  await until(() => !lines(rig).includes(NAME), "the name to go");
  await until(() => rig.published()[NAMED] === "80 none, 443 none", "the other protocol");
  rig.answer(NAMED, "optional", 80, 443);
  await until(() => lines(rig).includes(NAME), "the name to be mapped again");
});

for (const answer of ["demands-v2", "refuses-header"] as const) {
  test(`a new leader starts with the published answer, and waits for no proxy: ${answer}`, async (t) => {
    const rig = await headerRig(t, found);
    await rig.untilAsked(1);
    rig.answer(FOUND, answer, 443);
    await until(() => rig.questions()[0]?.answer === answer, "the answer to be published");
    const reason = answer === "demands-v2" ? undefined : "header-not-expected";
    await rig.untilReason(reason);
    // The status may be ahead of the map, and the next leader starts from the map.
    await until(() => lines(rig).includes(NAME) === (reason === undefined), "the map to be published");
    await rig.stop();
    const before = lines(rig);
    const next = await headerRig(t, { ...found, kube: rig.kube });
    await next.untilReason(reason);
    assert.deepEqual([next.questions()[0]?.answer, lines(next)], [answer, before]);
  });
}

for (const [what, setting, name, protocols] of [
  ["discovered", found, FOUND, "443 v2"],
  ["configured", configured, NAMED, "80 v2, 443 v2"],
] as const) {
  test(`names of a ${what} target, mapped before the first question, stay until there is an answer`, async (t) => {
    const config = {
      ...("config" in setting && setting.config),
      discovery: { detect: false },
      map: { vanishSeconds: 0 },
    };
    const before = await controllerRig(t, { ...setting, config });
    await until(() => lines(before).includes(NAME), "the name to be mapped");
    await before.stop();
    const rig = await headerRig(t, { ...setting, kube: before.kube, prepare() {} });
    await until(() => rig.questions().length > 0, "the questions");
    const ports = rig.questions().map(({ port }) => port);
    rig.answer(name, "unknown", ...ports);
    await rig.untilShown("unknown");
    await rig.untilReason(undefined);
    assert.ok(lines(rig).includes(NAME));
    assert.equal(rig.published()[name], protocols.replaceAll("v2", "v1"));
    rig.answer(name, "demands-v2", ...ports);
    await until(() => rig.published()[name] === protocols, "the answer to count");
    assert.ok(lines(rig).includes(NAME));
  });
}

test("a target with an explicit protocol, or with detect: false, is not asked", async (t) => {
  const ports = AUTO.map(({ port }) => ({ port, protocol: "v1" }));
  const [target] = CONFIGURED.targets;
  for (const config of [{ targets: [{ ...target, ports }] }, { ...CONFIGURED, discovery: { detect: false } }]) {
    const rig = await headerRig(t, { ...configured, config });
    rig.listen(NAMED);
    await until(() => lines(rig).includes(NAME), "the name to be mapped");
    assert.deepEqual([rig.questions(), rig.published()], [[], { [NAMED]: "80 v1, 443 v1" }]);
  }
});
