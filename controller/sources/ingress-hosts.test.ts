import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLogger as log } from "#lib/telemetry/log.ts";
import { ample } from "#test/fakes/claim-budget.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { settled, stopTime } from "#test/fakes/stopped-time.ts";
import { claimsOfIngress, ingressSource, viewIngress } from "./ingress-hosts.ts";
import type { Raw } from "./raw-object.ts";
import type { View } from "./types.ts";

const CREATED = "2026-01-01T00:00:00Z";
const OLD = { "kubernetes.io/ingress.class": "old" };
const ALIAS = { "nginx.ingress.kubernetes.io/server-alias": "alias.com, *.b.com" };

function ingress(spec: Raw, annotations: Raw = {}, status: unknown = {}): Raw {
  const metadata = { namespace: "shop", name: "web", creationTimestamp: CREATED, annotations };
  return { metadata, spec: { rules: [{ host: "a.com" }], ...spec }, status };
}
const shown = (claims: readonly View[]) =>
  claims.map(({ hostname, hints, anyDepth }) => {
    const about = "code" in hints ? hints.code : [hints.className, ...hints.addresses, hints.admitted].join(" ");
    return `${hostname} ${about}${anyDepth ? " anyDepth" : ""}`;
  });

const ADDRESSES = [{ ip: "203.0.113.9" }, { hostname: "lb.com" }, {}, null, { ip: "2001:db8::9" }];
const HOSTS = {
  rules: [{ host: "a.com" }, {}, { host: "" }, { host: "b.com" }],
  tls: [{ hosts: ["a.com", "c.com"] }, {}],
};
const NGINX = { ingressClassName: "nginx" };

const CASES: readonly (readonly [what: string, raw: Raw, defaultClass: string | undefined, expected: string[]])[] = [
  ["all hosts of rules and tls, once", ingress(HOSTS), "d", ["a.com d false", "b.com d false", "c.com d false"]],
  ["the class of the field", ingress(NGINX), "d", ["a.com nginx false"]],
  ["the class of the field before the annotation", ingress(NGINX, OLD), undefined, ["a.com nginx false"]],
  ["the class of the annotation", ingress({}, OLD), "d", ["a.com old false"]],
  ["no class", ingress({}), undefined, ["a.com  false"]],
  [
    "addresses as written, which admit it",
    ingress(NGINX, {}, { loadBalancer: { ingress: ADDRESSES } }),
    undefined,
    ["a.com nginx 203.0.113.9 lb.com 2001:db8::9 true"],
  ],
  ["no address", ingress(NGINX, {}, { loadBalancer: { ingress: [] } }), undefined, ["a.com nginx false"]],
  ["our annotation", ingress({}, { "switchback.dev/ignore": "true" }), "d", ["a.com ignored"]],
  ["another value of it", ingress({}, { "switchback.dev/ignore": "false" }), "d", ["a.com d false"]],
  [
    "aliases of ingress-nginx, whose wildcards cover any depth",
    ingress(NGINX, ALIAS),
    undefined,
    ["a.com nginx false", "alias.com nginx false", "*.b.com nginx false anyDepth"],
  ],
  ["aliases for another controller", ingress({}, ALIAS), "other", ["a.com other false"]],
];
for (const [what, raw, defaultClass, expected] of CASES) {
  test(`an Ingress claims its hosts, with ${what}`, () => {
    assert.deepEqual(shown(claimsOfIngress(viewIngress(raw), defaultClass)), expected);
  });
}

test("classes decide about all Ingresses: the first default by name, and its controller", async (t) => {
  const pass = stopTime(t, 50);
  const api = new MemoryKube();
  const INGRESSES = "/apis/networking.k8s.io/v1/ingresses";
  const CLASSES = "/apis/networking.k8s.io/v1/ingressclasses";
  const setClass = (name: string, isDefault: boolean, controller?: string) => {
    const annotations = { "ingressclass.kubernetes.io/is-default-class": String(isDefault) };
    api.set(CLASSES, { metadata: { name, annotations }, spec: { controller } });
  };
  const source = ingressSource({ client: api.client, budget: ample(), log });
  t.after(() => source.stop());
  const reported = new Map<string, unknown>();
  const reports = async () => {
    await pass(100);
    const all = Object.fromEntries(reported);
    reported.clear();
    return all;
  };
  api.set(INGRESSES, { metadata: { namespace: "shop", name: "web" }, spec: HOSTS });
  api.set(INGRESSES, {
    metadata: { namespace: "shop", name: "own", annotations: ALIAS },
    spec: { ...HOSTS, ...NGINX },
  });
  api.set(INGRESSES, { metadata: { namespace: "shop", name: "nameless" }, spec: {} });
  setClass("z", true);
  const summary = (views: readonly View[]) => {
    const [first] = views;
    const hints = first !== undefined && "addresses" in first.hints ? first.hints : undefined;
    return [views.length, hints?.className, hints?.controller];
  };
  source.start(
    (object, views) => reported.set(object, summary(views)),
    () => {},
  );
  await settled();
  const [web, own] = ["Ingress shop/web", "Ingress shop/own"];
  assert.deepEqual(await reports(), {
    [web]: [3, "z", undefined],
    [own]: [5, "nginx", undefined],
  });
  setClass("b", true);
  assert.deepEqual(await reports(), { [web]: [3, "b", undefined] });
  setClass("nginx", false, "nginx.org/ingress-controller");
  assert.deepEqual(await reports(), { [own]: [3, "nginx", "nginx.org/ingress-controller"] });
  api.unset(CLASSES, "b");
  assert.deepEqual(await reports(), { [web]: [3, "z", undefined] });
  assert.deepEqual(
    source.state().map(({ name, synced }) => [name, synced]),
    [
      ["ingresses", true],
      ["ingressclasses", true],
    ],
  );
});

const ALIASES = "nginx.ingress.kubernetes.io/server-alias";
const WWW = "nginx.ingress.kubernetes.io/from-to-www-redirect";
const CANARY = "nginx.ingress.kubernetes.io/canary";
const MAIN = ["main.com"];

type Case = readonly [annotations: object, names: readonly string[], hosts?: readonly string[], tls?: string[]];
const NGINX_CASES: readonly Case[] = [
  // Source: kubernetes/ingress-nginx, internal/ingress/annotations/alias/main_test.go, TestParse.
  [{ [ALIASES]: "a.com, b.com, ,    c.com" }, ["a.com", "b.com", "c.com"]],
  [{ [ALIASES]: "www.example.com" }, ["www.example.com"]],
  [{ [ALIASES]: "*.example.com,www.example.*" }, ["*.example.com", "www.example.*"]],
  [{ [ALIASES]: "~^www\\d+\\.example\\.com$" }, ["~^www\\d+\\.example\\.com$"]],
  [{ [ALIASES]: "a.com,a.com, main.com" }, ["a.com"]],
  [{ [ALIASES]: "a.com b.com" }, ["a.com b.com"]],
  [{}, []],
  [{ [ALIASES]: "" }, []],
  [{ [ALIASES]: 7, [WWW]: true }, []],
  [{ [ALIASES]: "a.com", [CANARY]: "true" }, []],
  [{ [ALIASES]: "a.com" }, [], []],
  // The server for all names has aliases, too.
  [{ [ALIASES]: "a.com" }, ["a.com"], [""]],
  [{ [ALIASES]: "a.com", [WWW]: "true" }, ["www.main.com", "a.com"]],
  // As in BuildRedirects.
  ...["true", "TRUE", "True", "t", "T", "1"].map(
    (yes): Case => [{ [WWW]: yes }, ["www.main.com", "shop.com"], ["main.com", "www.shop.com", "", "*.wild.com"]],
  ),
  ...["false", "yes", "tRUE", "0", " true"].map((no): Case => [{ [WWW]: no }, []]),
  // A host is no redirect, nor is a host of the certificate.
  [{ [WWW]: "true" }, [], ["main.com", "www.main.com"]],
  [{ [WWW]: "true" }, [], MAIN, ["www.main.com"]],
];
/** The names that ingress-nginx adds to these hosts. */
const nginxNames = (annotations: Raw, hosts: readonly string[], tls: readonly string[] = []) =>
  viewIngress(ingress({ rules: hosts.map((host) => ({ host })), tls: [{ hosts: tls }] }, annotations)).nginx;
for (const [annotations, names, hosts = MAIN, tls] of NGINX_CASES) {
  test(`ingress-nginx serves ${names.join() || "nothing more"} with ${JSON.stringify(annotations)}`, () => {
    assert.deepEqual(nginxNames({ ...annotations }, hosts, tls), names);
  });
}

test("hostile: a quarter of a megabyte of aliases takes bounded time, and few names are kept", () => {
  const begun = process.cpuUsage();
  for (const text of [",".repeat(262_144), "a,".repeat(131_072), `${"x".repeat(262_000)},a.com`]) {
    assert.ok(nginxNames({ [ALIASES]: text }, MAIN).length <= 2);
  }
  const many = Array.from({ length: 20_000 }, (_, index) => `h${index}.com`).join();
  assert.equal(nginxNames({ [ALIASES]: many }, MAIN).length, 1_001);
  const { user, system } = process.cpuUsage(begun);
  assert.ok((user + system) / 1_000 < 500, `${(user + system) / 1_000} ms`);
});
