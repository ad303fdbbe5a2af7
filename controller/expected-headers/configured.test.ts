import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { controllerRig, lines, NAME, putIngress } from "#test/fakes/controller-rig.ts";
import { headerRig } from "#test/fakes/header-rig.ts";
import { until } from "#test/fakes/kube-api.ts";
import type { MemoryKube } from "#test/fakes/memory-kube.ts";
import { classCatalog } from "../targets/resolver.ts";
import { HeaderDecisions } from "./header-decisions.ts";

// Configured targets of protocol `auto`, tested with whole controllers and one proxy that answers.

const NAMED = "ingress-nginx";
const SERVICE = "/api/v1/namespaces/ingress-nginx/services/ingress-nginx-controller";
const AUTO = [80, 443].map((port) => ({ port, protocol: "auto" }));
const upstream = { service: { namespace: "ingress-nginx", name: "ingress-nginx-controller" } };
const target = { name: NAMED, upstream, ports: AUTO };

function putService(kube: MemoryKube, annotations: Readonly<Record<string, string>> = {}): void {
  kube.put(SERVICE, {
    metadata: { creationTimestamp: "2026-01-01T00:00:00Z", annotations },
    spec: {
      type: "LoadBalancer",
      clusterIPs: ["198.51.100.80"],
      ports: [80, 443].map((port) => ({ port, protocol: "TCP" })),
    },
    status: { loadBalancer: { ingress: [{ ip: "192.0.2.80" }] } },
  });
}

const withService = (annotations?: Readonly<Record<string, string>>) => (kube: MemoryKube) => {
  putService(kube, annotations);
  putIngress(kube, [NAME]);
};

test("names of a configured target wait for an answer and follow it; nothing is relayed before", async (t) => {
  const rig = await headerRig(t, { upstream: false, config: { targets: [target] }, prepare: withService() });
  await rig.untilAsked(2);
  assert.deepEqual(
    rig.questions().map(({ upstream: host, upstreamIPs, namespace }) => [host, upstreamIPs, namespace]),
    [1, 2].map(() => ["ingress-nginx-controller.ingress-nginx.svc.cluster.local.", undefined, "ingress-nginx"]),
  );
  await rig.untilReason("header-unknown");
  assert.deepEqual([lines(rig), rig.published()], ["", {}]);
  const shown = async () => (await rig.status()).targets.find(({ name }) => name === NAMED)?.ports;
  assert.deepEqual(await shown(), AUTO);

  rig.answer(NAMED, "demands-v2", 80, 443);
  await until(() => lines(rig).includes(NAME), "the name to be mapped");
  assert.deepEqual(rig.published(), { [NAMED]: "80 v2, 443 v2" });

  rig.answer(NAMED, "refuses-header", 80, 443);
  await rig.untilReason("header-not-expected");
  await until(() => !lines(rig).includes(NAME), "the name to go");
  // The proxies still relay pods that hold its address, without a header.
  await until(() => rig.published()[NAMED] === "80 none, 443 none", "the other protocol");

  rig.answer(NAMED, "optional", 80, 443);
  await until(() => lines(rig).includes(NAME), "the name to be mapped again");
});

test("an upgrade removes no name: a relayed target stays unchanged until there is an answer", async (t) => {
  const config = { targets: [target], discovery: { detect: false }, map: { vanishSeconds: 0 } };
  const before = await controllerRig(t, { upstream: false, config, prepare: withService() });
  await until(() => lines(before).includes(NAME), "the name to be mapped");
  await before.stop();
  const rig = await headerRig(t, { upstream: false, config: { targets: [target] }, kube: before.kube, prepare() {} });
  await rig.untilAsked(2);
  await rig.untilReason(undefined);
  putIngress(rig.kube, [NAME, "new.example.com"]);
  await until(() => lines(rig).includes("new.example.com"), "a new name of the relayed target");
  rig.answer(NAMED, "unknown", 80, 443);
  await rig.untilShown("unknown");
  await rig.untilReason(undefined);
  assert.ok(lines(rig).includes(NAME));
  assert.deepEqual(rig.published(), { [NAMED]: "80 v1, 443 v1" });
  rig.answer(NAMED, "demands-v2", 80, 443);
  await until(() => rig.published()[NAMED] === "80 v2, 443 v2", "the answer to count");
  assert.ok(lines(rig).includes(NAME));
});

test("its Service's annotation decides; with map: always, a refused header leads to the Service itself", async (t) => {
  const stated = { "switchback.dev/proxy-protocol": "v2" };
  const rig = await headerRig(t, { upstream: false, config: { targets: [target] }, prepare: withService(stated) });
  await rig.untilAsked(2);
  rig.answer(NAMED, "refuses-header", 80, 443);
  await until(() => lines(rig).includes(NAME), "the name to be mapped");
  assert.deepEqual(rig.published(), { [NAMED]: "80 v2, 443 v2" });
  putService(rig.kube, { "switchback.dev/map": "always" });
  await until(() => lines(rig).includes(`198.51.100.80 ${NAME}`), "the name to lead to the Service itself");
});

test("a target with an explicit protocol, or with detect: false, is not asked", async (t) => {
  const ports = AUTO.map(({ port }) => ({ port, protocol: "v1" }));
  const config = { targets: [{ ...target, ports }] };
  const explicit = await headerRig(t, { upstream: false, config, prepare: withService() });
  explicit.listen(NAMED);
  await until(() => lines(explicit).includes(NAME), "the name to be mapped");
  assert.deepEqual(explicit.questions(), []);
  const silent = { targets: [target], discovery: { detect: false } };
  const rig = await headerRig(t, { upstream: false, config: silent, prepare: withService() });
  rig.listen(NAMED);
  await until(() => lines(rig).includes(NAME), "the name to be mapped");
  assert.deepEqual([rig.questions(), rig.published()], [[], { [NAMED]: "80 v1, 443 v1" }]);
});

test("a host outside the cluster is asked by its name, even without discovery", async (t) => {
  const outside = { name: "edge", upstream: { host: "edge.example.net" }, classes: ["nginx"], ports: AUTO };
  const config = { targets: [outside], discovery: { enabled: false } };
  const rig = await headerRig(t, { upstream: false, config, prepare: (kube) => putIngress(kube, [NAME]) });
  await rig.untilAsked(2);
  assert.deepEqual(
    rig.questions().map(({ upstream: host, upstreamIPs, namespace }) => [host, upstreamIPs, namespace]),
    [1, 2].map(() => ["edge.example.net", undefined, ""]),
  );
  await rig.untilReason("header-unknown");
  rig.answer("edge", "demands-v1", 80, 443);
  await until(() => lines(rig).includes(NAME), "the name to be mapped");
});

test("the protocols in use decide as soon as they are read, before any answer", () => {
  const catalog = classCatalog(parseConfig({ targets: [target] }));
  const headers = new HeaderDecisions({ catalog, mapsAlways: () => false, preferred: "v1" });
  const seen: (string | undefined)[] = [];
  headers.follow(() => seen.push(headers.against(NAMED)?.reason.code));
  assert.equal(headers.against(NAMED)?.reason.code, "header-unknown");
  const ports = [{ port: 443, listenPort: 15_000, upstreamPort: 443, protocol: "v1" }] as const;
  const published = [{ name: NAMED, upstream: "edge", ports, clusterIPs: [] }];
  headers.learn(published);
  headers.learn(published);
  assert.deepEqual(seen, [undefined], "told once");
});
