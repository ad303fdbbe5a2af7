import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { silentLogger } from "#lib/telemetry/log.ts";
import { ample } from "#test/fakes/claim-budget.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { isSettled, settled } from "#test/fakes/stopped-time.ts";
import { fc } from "#test/property.ts";
import { claimsOfIngress, informerState, ingressSource, viewIngress } from "./ingress-hosts.ts";

const NO_CLASSES = { defaultClass: undefined };

const INGRESSES = "/apis/networking.k8s.io/v1/ingresses";
const CLASSES = "/apis/networking.k8s.io/v1/ingressclasses";

function ingress(name: string, className?: string) {
  const spec = { ...(className && { ingressClassName: className }), rules: [{ host: `${name}.example.com` }] };
  return { metadata: { namespace: "shop", name, creationTimestamp: "2026-01-01T00:00:00Z" }, spec };
}

function ingressClass(name: string, isDefault?: string) {
  const annotations = isDefault === undefined ? {} : { "ingressclass.kubernetes.io/is-default-class": isDefault };
  return { metadata: { name, annotations } };
}

/** A source for a cluster in memory. `reported` has `key host:class` per claim, or `-key` without claims. */
function rig(t: TestContext) {
  const api = new MemoryKube();
  const source = ingressSource({ client: api.client, budget: ample(), log: silentLogger });
  const reported: string[] = [];
  const calls = { synced: 0 };
  const start = () =>
    source.start(
      (key, claims) => {
        if (claims.length === 0) reported.push(`-${key}`);
        for (const { hostname, hints } of claims) {
          reported.push(`${key} ${hostname}:${"code" in hints ? hints.code : hints.className}`);
        }
      },
      () => {
        calls.synced += 1;
      },
    );
  t.after(() => source.stop());
  const take = () => reported.splice(0);
  return { api, source, start, reported, take, calls };
}

for (const last of [CLASSES, INGRESSES]) {
  test(`nothing is reported before the classes are known; synced once: ${last.split("/").pop()} is last`, async (t) => {
    const { api, start, take, calls, source } = rig(t);
    api.set(INGRESSES, ingress("a"));
    api.set(CLASSES, ingressClass("nginx", "true"));
    const release = api.hold(last);
    start();
    await settled();
    assert.deepEqual([take(), calls.synced], [[], 0]);
    assert.deepEqual(
      source.state().map(({ name, synced }) => [name, synced]),
      [
        ["ingresses", last !== INGRESSES],
        ["ingressclasses", last !== CLASSES],
      ],
    );
    release();
    await settled();
    assert.deepEqual(new Set(take()), new Set(["shop/a a.example.com:nginx"]));
    assert.equal(calls.synced, 1);
    assert.ok(source.state().every(({ synced }) => synced));
    assert.deepEqual([...api.whole].sort(), [CLASSES, INGRESSES], "of a class its controller counts too");
  });
}

test("an added, changed or deleted Ingress is reported", async (t) => {
  const { api, start, take, calls } = rig(t);
  start();
  await settled();
  assert.deepEqual([take(), calls.synced], [[], 1]);
  api.set(INGRESSES, ingress("a", "nginx"));
  api.set(INGRESSES, ingress("a", "traefik"));
  api.unset(INGRESSES, "shop/a");
  assert.deepEqual(take(), ["shop/a a.example.com:nginx", "shop/a a.example.com:traefik", "-shop/a"]);
  assert.equal(calls.synced, 1);
});

test("a change of the default class affects only the Ingresses without a class", async (t) => {
  const { api, start, take } = rig(t);
  api.set(INGRESSES, ingress("a"));
  api.set(INGRESSES, ingress("b", "nginx"));
  api.set(CLASSES, ingressClass("other", "false"));
  start();
  await settled();
  assert.deepEqual(new Set(take()), new Set(["shop/a a.example.com:undefined", "shop/b b.example.com:nginx"]));
  api.set(CLASSES, ingressClass("m", "true"));
  assert.deepEqual(take(), ["shop/a a.example.com:m"]);
  api.set(CLASSES, ingressClass("z", "true"));
  assert.deepEqual(take(), [], "with two defaults the first by name counts");
  api.set(CLASSES, ingressClass("b", "true"));
  assert.deepEqual(take(), ["shop/a a.example.com:b"]);
  api.unset(CLASSES, "b");
  assert.deepEqual(take(), ["shop/a a.example.com:m"]);
});

test("annotations of ingress-nginx count only while the controller of the class is ingress-nginx", async (t) => {
  const { api, start, take } = rig(t);
  const annotations = { "nginx.ingress.kubernetes.io/server-alias": "alias.example.com" };
  const own = ingress("a", "nginx");
  api.set(INGRESSES, { ...own, metadata: { ...own.metadata, annotations } });
  start();
  await settled();
  const whole = ["shop/a a.example.com:nginx", "shop/a alias.example.com:nginx"];
  assert.deepEqual(take(), whole, "without an IngressClass its name decides");
  api.set(CLASSES, { ...ingressClass("nginx"), spec: { controller: "nginx.org/ingress-controller" } });
  assert.deepEqual(take(), whole.slice(0, 1));
  api.set(CLASSES, { ...ingressClass("nginx"), spec: { controller: "k8s.io/ingress-nginx" } });
  assert.deepEqual(take(), whole);
});

test("stopping ends both watches and waits for them", async (t) => {
  const { api, start, source, take } = rig(t);
  start();
  await settled();
  assert.deepEqual(api.watched, [CLASSES, INGRESSES]);
  const linger = Promise.withResolvers<void>();
  api.lingering = linger.promise;
  const stopped = source.stop();
  assert.equal(await isSettled(stopped), false);
  api.set(INGRESSES, ingress("a", "nginx"));
  linger.resolve();
  await stopped;
  assert.deepEqual([api.watched, take()], [[], []]);
});

test("a source that was not started has no objects, and can be stopped", async (t) => {
  const { source } = rig(t);
  assert.deepEqual(source.state(), [
    { name: "ingresses", synced: false, problems: [] },
    { name: "ingressclasses", synced: false, problems: [] },
  ]);
  await source.stop();
});

test("a failing watch is reported as a problem of the source", async (t) => {
  const { api, start, source } = rig(t);
  api.refuse(CLASSES, 403);
  start();
  await settled();
  const [ingresses, classes] = source.state();
  assert.deepEqual([ingresses?.problems, classes?.problems.map(({ place }) => place)], [[], ["ingressclasses"]]);
  assert.equal(typeof classes?.inactiveMs, "number");
  assert.deepEqual(informerState("x", undefined), { name: "x", synced: false, problems: [] });
});

// Tests of the hosts of an Ingress, without a cluster.

const INGRESS = {
  metadata: { name: "web", namespace: "shop", creationTimestamp: "2026-01-01T00:00:00Z" },
  spec: {
    ingressClassName: "nginx",
    rules: [{ host: "a.example.com" }, { host: "b.example.com" }, {}, { host: "" }],
    tls: [{ hosts: ["a.example.com", "c.example.com"] }, {}],
  },
};
const FROM = { kind: "Ingress", namespace: "shop", name: "web" };

test("an Ingress has all unique hosts of its rules and tls; a rule for all names adds none", () => {
  assert.deepEqual(viewIngress(INGRESS), {
    ref: FROM,
    created: "2026-01-01T00:00:00Z",
    className: "nginx",
    hosts: ["a.example.com", "b.example.com", "c.example.com"],
    addresses: [],
    ignored: false,
  });
});

const OLD = { "kubernetes.io/ingress.class": "old" };
const CLASS_CASES: ReadonlyArray<
  readonly [
    what: string,
    spec: object,
    annotations: Record<string, string>,
    defaultClass: string | undefined,
    expected: string | undefined,
  ]
> = [
  ["the field", { ingressClassName: "nginx" }, {}, "fallback", "nginx"],
  ["the field before the annotation", { ingressClassName: "nginx" }, OLD, "fallback", "nginx"],
  ["the annotation", {}, OLD, "fallback", "old"],
  ["the default", {}, {}, "fallback", "fallback"],
  ["none", {}, {}, undefined, undefined],
];
for (const [what, spec, annotations, defaultClass, expected] of CLASS_CASES) {
  test(`the class is ${what}`, () => {
    const raw = {
      metadata: { ...INGRESS.metadata, annotations },
      spec: { ...spec, rules: [{ host: "a.example.com" }] },
    };
    const hints = { className: expected, addresses: [], admitted: false };
    assert.deepEqual(claimsOfIngress(viewIngress(raw), { defaultClass }), [
      { hostname: "a.example.com", hints, from: FROM, created: "2026-01-01T00:00:00Z" },
    ]);
  });
}

test("the hints have the addresses of the status as written; an Ingress with an address is admitted", () => {
  const ingress = [{ ip: "203.0.113.9" }, { hostname: "lb.example.net" }, {}, null, { ip: "2001:db8::9" }];
  const [claim] = claimsOfIngress(viewIngress({ ...INGRESS, status: { loadBalancer: { ingress } } }), NO_CLASSES);
  const addresses = ["203.0.113.9", "lb.example.net", "2001:db8::9"];
  assert.deepEqual(claim?.hints, { className: "nginx", addresses, admitted: true });
  for (const status of [null, {}, { loadBalancer: null }, { loadBalancer: {} }, { loadBalancer: { ingress: [] } }]) {
    const [without] = claimsOfIngress(viewIngress({ ...INGRESS, status }), NO_CLASSES);
    assert.deepEqual(without?.hints, { className: "nginx", addresses: [], admitted: false });
  }
});

test("an ignored Ingress claims its names without a target, so that the status can show the reason", () => {
  const raw = { ...INGRESS, metadata: { ...INGRESS.metadata, annotations: { "switchback.dev/ignore": "true" } } };
  const claims = claimsOfIngress(viewIngress(raw), NO_CLASSES);
  assert.equal(claims.length, 3);
  for (const { hints } of claims) {
    assert.deepEqual(hints, { code: "ignored", text: 'the Ingress carries switchback.dev/ignore: "true"' });
  }
  const other = { ...INGRESS, metadata: { ...INGRESS.metadata, annotations: { "switchback.dev/ignore": "false" } } };
  assert.equal(viewIngress(other).ignored, false);
});

test("an object of a file needs no namespace", () => {
  assert.deepEqual(viewIngress({ metadata: { name: "web" } }).ref, {
    kind: "Ingress",
    namespace: "default",
    name: "web",
  });
});

test("property: for fields of any type, an Ingress has hosts that are strings", () => {
  const part = fc.anything({ maxDepth: 3, values: [fc.string(), fc.integer(), fc.constant(null), fc.boolean()] });
  const raw = fc.record(
    {
      metadata: fc.oneof(part, fc.record({ annotations: part, creationTimestamp: part }, { requiredKeys: [] })),
      spec: fc.oneof(
        part,
        fc.record(
          { rules: part, tls: fc.oneof(part, fc.array(fc.record({ hosts: part }))), ingressClassName: part },
          { requiredKeys: [] },
        ),
      ),
      status: fc.oneof(part, fc.record({ loadBalancer: fc.oneof(part, fc.record({ ingress: part })) })),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(raw, (object) => {
      const view = viewIngress(object);
      for (const host of [...view.hosts, ...view.addresses]) assert.equal(typeof host, "string");
      assert.equal(typeof view.created, "string");
      assert.ok(view.className === undefined || typeof view.className === "string");
    }),
    { numRuns: 500 },
  );
});
