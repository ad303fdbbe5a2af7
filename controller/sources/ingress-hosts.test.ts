import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "#test/property.ts";
import { claimsOfIngress, type RawIngress, viewIngress } from "./ingress-hosts.ts";

const INGRESS: RawIngress = {
  metadata: { name: "web", namespace: "shop", creationTimestamp: "2026-01-01T00:00:00Z" },
  spec: {
    ingressClassName: "nginx",
    rules: [{ host: "a.example.com" }, { host: "b.example.com" }, {}, { host: "" }],
    tls: [{ hosts: ["a.example.com", "c.example.com"] }, {}],
  },
};
const FROM = { kind: "Ingress", namespace: "shop", name: "web" };

test("every host of rules and of tls, without duplicates; a rule for all names claims none", () => {
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
const CLASSES: ReadonlyArray<
  readonly [
    what: string,
    spec: RawIngress["spec"],
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
for (const [what, spec, annotations, defaultClass, expected] of CLASSES) {
  test(`the class is ${what}`, () => {
    const raw = {
      metadata: { ...INGRESS.metadata, annotations },
      spec: { ...spec, rules: [{ host: "a.example.com" }] },
    };
    const hints = { className: expected, addresses: [], admitted: false };
    assert.deepEqual(claimsOfIngress(viewIngress(raw), defaultClass), [
      { hostname: "a.example.com", hints, from: FROM, created: "2026-01-01T00:00:00Z" },
    ]);
  });
}

test("the hints include its load balancer status, IP addresses and host names as written; with a status it is admitted", () => {
  const ingress = [{ ip: "203.0.113.9" }, { hostname: "lb.example.net" }, {}, null, { ip: "2001:db8::9" }];
  const [claim] = claimsOfIngress(viewIngress({ ...INGRESS, status: { loadBalancer: { ingress } } }), undefined);
  const addresses = ["203.0.113.9", "lb.example.net", "2001:db8::9"];
  assert.deepEqual(claim?.hints, { className: "nginx", addresses, admitted: true });
  for (const status of [null, {}, { loadBalancer: null }, { loadBalancer: {} }, { loadBalancer: { ingress: [] } }]) {
    const [without] = claimsOfIngress(viewIngress({ ...INGRESS, status }), undefined);
    assert.deepEqual(without?.hints, { className: "nginx", addresses: [], admitted: false });
  }
});

test("an ignored Ingress claims its names without a target, so that status can say why", () => {
  const raw = { ...INGRESS, metadata: { ...INGRESS.metadata, annotations: { "switchback.dev/ignore": "true" } } };
  const claims = claimsOfIngress(viewIngress(raw), undefined);
  assert.equal(claims.length, 3);
  for (const { hints } of claims) {
    assert.deepEqual(hints, { code: "ignored", text: 'the Ingress carries switchback.dev/ignore: "true"' });
  }
  const other = { ...INGRESS, metadata: { ...INGRESS.metadata, annotations: { "switchback.dev/ignore": "false" } } };
  assert.equal(viewIngress(other).ignored, false);
});

test("the file is reported if there is one, and an object of a file needs no namespace", () => {
  assert.deepEqual(viewIngress({ metadata: { name: "web" } }, "a.yaml").ref, {
    kind: "Ingress",
    namespace: "default",
    name: "web",
    file: "a.yaml",
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
      const view = viewIngress(object as RawIngress);
      for (const host of [...view.hosts, ...view.addresses]) assert.equal(typeof host, "string");
      assert.equal(typeof view.created, "string");
      assert.ok(view.className === undefined || typeof view.className === "string");
    }),
    { numRuns: 500 },
  );
});
