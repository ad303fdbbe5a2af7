import assert from "node:assert/strict";
import { test } from "node:test";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { fakeDelivery } from "#test/fakes/delivery.ts";
import type { AdmissionRequest } from "./admission-review.ts";
import { readPod } from "./admitted-pod.ts";
import { createInjectionCache } from "./injection-cache.ts";
import { decideInjection, type OptIn } from "./injection-decision.ts";

const NAMES = ["a.example.com", "b.example.com"];
const map = createInjectionCache(publishedMapOf("r", new Map(NAMES.map((name) => [name, ["198.51.100.9"]]))), 500);
const INJECT = "switchback.dev/inject";

/** The creation of a pod with these labels and annotations. */
function creation(more: Partial<AdmissionRequest> = {}, metadata: object = {}, spec: object = {}): AdmissionRequest {
  const object = { metadata: { name: "web", ...metadata }, spec };
  return { uid: "u", kind: { group: "", kind: "Pod" }, operation: "CREATE", object, ...more };
}

const labelled = (value: string) => creation({}, { labels: { [INJECT]: value } });
const mirror = { annotations: { "kubernetes.io/config.mirror": "" } };
const DISABLED = ["pod-disabled", `the pod's label ${INJECT} is disabled, and the pod's label wins`, false] as const;
const NOT_A_POD = [
  "not-a-pod",
  "the review is not about a Pod: check the rules of the MutatingWebhookConfiguration",
  true,
] as const;
const NOT_CREATE = ["not-create", "hostAliases can only be set while a pod is created", false] as const;
const NOT_OPTED_IN = [
  "not-opted-in",
  `the pod's label ${INJECT} is not enabled, and its namespace did not opt in`,
  false,
] as const;
const MIRROR = [
  "mirror-pod",
  "the pod mirrors a static pod, whose hostAliases come from its file on the node",
  false,
] as const;

const SKIPPED: ReadonlyArray<
  readonly [what: string, request: AdmissionRequest, optIn: OptIn, expected: readonly [string, string, boolean]]
> = [
  ["another kind", creation({ kind: { group: "", kind: "Node" } }), "namespace", NOT_A_POD],
  ["another group", creation({ kind: { group: "metrics.k8s.io", kind: "Pod" } }), "namespace", NOT_A_POD],
  ["a subresource", creation({ subResource: "ephemeralcontainers" }), "namespace", NOT_A_POD],
  ["an update", creation({ operation: "UPDATE" }), "namespace", NOT_CREATE],
  ["an update of another kind", creation({ operation: "UPDATE", subResource: "status" }), "namespace", NOT_A_POD],
  ["a mirror pod", creation({}, mirror), "namespace", MIRROR],
  ["a mirror pod that opted in", creation({}, { ...mirror, labels: { [INJECT]: "enabled" } }), "pod", MIRROR],
  ["a disabled pod", labelled("disabled"), "namespace", DISABLED],
  ["a disabled pod, by the pod's path", labelled("disabled"), "pod", DISABLED],
  ["a pod without the label", creation(), "pod", NOT_OPTED_IN],
  ["a pod with another value of the label", labelled("true"), "pod", NOT_OPTED_IN],
];
for (const [what, request, optIn, [code, text, warn]] of SKIPPED) {
  test(`${what} is not injected: ${code}`, () => {
    assert.deepEqual(decideInjection(request, optIn, map), { inject: false, code, text, warn });
    assert.equal(decideInjection(request, optIn, undefined).code, code, "also without a map");
  });
}

test("without a map, a pod that should be injected is not, and its user is warned", () => {
  assert.deepEqual(decideInjection(creation(), "namespace", undefined), {
    inject: false,
    code: "no-map",
    text: "no hostname map is loaded yet, so this pod gets no names",
    warn: true,
  });
});

test("a pod is injected by its namespace or by its label; an empty subresource counts as none", () => {
  const aliases = [{ ip: "198.51.100.9", hostnames: NAMES }];
  for (const [request, optIn] of [
    [creation(), "namespace"],
    [labelled("true"), "namespace"],
    [labelled("enabled"), "pod"],
    [creation({ subResource: "" }), "namespace"],
  ] as const) {
    const decision = decideInjection(request, optIn, map);
    assert.ok(decision.inject);
    assert.deepEqual([decision.code, decision.injection.managed.aliases], ["injected", aliases]);
    assert.deepEqual([decision.pod, decision.warnings], [readPod(request.object), []]);
  }
});

test("a pod whose user maps every name, or that selects no name, gets only the annotations", () => {
  const own = { hostAliases: [{ ip: "192.0.2.1", hostnames: NAMES }] };
  const none = { annotations: { "switchback.dev/hosts": "c.example.com" } };
  for (const request of [creation({}, {}, own), creation({}, none)]) {
    const decision = decideInjection(request, "namespace", map);
    assert.ok(decision.inject);
    assert.deepEqual([decision.code, decision.injection.managed.aliases], ["nothing-chosen", []]);
  }
});

const MALFORMED: ReadonlyArray<readonly [what: string, object: unknown, text: RegExp]> = [
  ["no object", undefined, /^the pod cannot be read: the object: /],
  ["no metadata", { spec: {} }, /: metadata: /],
  ["no spec", { metadata: {} }, /: spec: /],
  ["a name that is none", { metadata: { name: 5 }, spec: {} }, /: metadata\.name: /],
  [
    "labels that are a list",
    { metadata: { labels: ["x"] }, spec: {} },
    /: metadata\.labels: must be a map of strings$/,
  ],
  [
    "annotations of numbers",
    { metadata: { annotations: { a: "", b: 1 } }, spec: {} },
    /: metadata\.annotations: must be a map of strings/,
  ],
  ["labels that are a text", { metadata: { labels: "x" }, spec: {} }, /: metadata\.labels: /],
  ["an alias without an address", { metadata: {}, spec: { hostAliases: [{}] } }, /: spec\.hostAliases: /],
  [
    "hostnames of numbers",
    { metadata: {}, spec: { hostAliases: [{ ip: "x", hostnames: [1] }] } },
    /: spec\.hostAliases: /,
  ],
];
for (const [what, object, text] of MALFORMED) {
  test(`a pod with ${what} is not injected, and its user is warned without its content`, () => {
    const decision = decideInjection(creation({ object }), "namespace", map);
    assert.ok(!decision.inject);
    assert.deepEqual([decision.code, decision.warn], ["pod-malformed", true]);
    assert.match(decision.text, text);
  });
}

test("readPod reads null and missing fields as empty, and generateName for a pod without a name", () => {
  const NOTHING = { labels: {}, annotations: {}, hasAnnotations: false, hasLabels: false, hostAliases: [] };
  const EMPTY = { ...NOTHING, name: "*", isWindows: false };
  assert.deepEqual(readPod({ metadata: {}, spec: {} }), EMPTY);
  assert.deepEqual(readPod({ metadata: { labels: null, annotations: null }, spec: { hostAliases: null } }), EMPTY);
  assert.deepEqual(readPod({ metadata: { name: "", generateName: "web-", annotations: {} }, spec: {} }), {
    ...EMPTY,
    name: "web-*",
    hasAnnotations: true,
  });
  const hostAliases = [{ ip: "a", hostnames: ["b"] }, { ip: "c" }, { ip: "d", hostnames: null }];
  const metadata = { name: "web", generateName: "x-", labels: { l: "1" }, annotations: { n: "2" } };
  assert.deepEqual(readPod({ metadata, spec: { hostAliases } }), {
    name: "web",
    labels: { l: "1" },
    annotations: { n: "2" },
    hasAnnotations: true,
    hasLabels: true,
    hostAliases: [
      { ip: "a", hostnames: ["b"] },
      { ip: "c", hostnames: [] },
      { ip: "d", hostnames: [] },
    ],
    isWindows: false,
  });
});

const GIVEN = "switchback.dev/given";
const given = creation({}, { annotations: { [GIVEN]: "all" } });
const by = (fallback: string, ...deliveries: ReturnType<typeof fakeDelivery>[]) => ({ fallback, deliveries });

test("a pod gets the names by the delivery that the install selects", () => {
  const decision = decideInjection(labelled("enabled"), "pod", map, by("dns", fakeDelivery()));
  assert.ok(decision.inject);
  assert.deepEqual([decision.code, decision.injection.managed.aliases], ["given", []]);
  assert.deepEqual(decision.changes, [{ op: "add", path: "/spec/given", value: "all" }]);
});

test("the pod's own label selects the delivery before its namespace's, and that one before the install's", () => {
  const codeOf = (pod: string | undefined, namespace: string | undefined, fallback: string) => {
    const labels = pod === undefined ? {} : { "switchback.dev/via": pod };
    const choice = { ...by(fallback, fakeDelivery()), namespace };
    return decideInjection(creation({}, { labels }), "namespace", map, choice).code;
  };
  assert.equal(codeOf("dns", "hosts", "hosts"), "given");
  assert.equal(codeOf("hosts", "dns", "dns"), "injected");
  assert.equal(codeOf(undefined, "dns", "hosts"), "given");
  assert.equal(codeOf(undefined, "hosts", "dns"), "injected");
});

test("a pod that changes from a delivery to hostAliases loses what the delivery gave it", () => {
  const decision = decideInjection(given, "namespace", map, by("hosts", fakeDelivery()));
  assert.ok(decision.inject);
  assert.deepEqual([decision.code, decision.changes], ["injected", [{ op: "remove", path: "/spec/given" }]]);
});

test("a delivery that cannot give the names takes back its changes; the pod gets hostAliases and the reason", () => {
  const reason = { code: "given-not-ready", text: "why" };
  const delivery = fakeDelivery({}, { give: () => reason });
  const decision = decideInjection(given, "namespace", map, by("dns", delivery));
  assert.ok(decision.inject);
  assert.deepEqual([decision.code, decision.warnings], ["injected", [reason]]);
  assert.deepEqual(decision.changes, [{ op: "remove", path: "/spec/given" }]);
});

test("a delivery reads only pods that should get the names by it, or whose annotation says that they have them", () => {
  const unread = fakeDelivery({ read: () => ({ code: "pod-malformed", text: "the pod cannot be read: spec.x" }) });
  assert.equal(decideInjection(creation(), "namespace", map, by("hosts", unread)).code, "injected");
  for (const [request, fallback] of [
    [creation(), "dns"],
    [given, "hosts"],
  ] as const) {
    const text = "the pod cannot be read: spec.x";
    const refused = { inject: false, code: "pod-malformed", text, warn: true };
    assert.deepEqual(decideInjection(request, "namespace", map, by(fallback, unread)), refused);
  }
});

test("of two deliveries, one gives the names and the other takes back its changes", () => {
  const other = fakeDelivery({ name: "other", code: "other" });
  const decision = decideInjection(given, "namespace", map, by("other", fakeDelivery(), other));
  assert.ok(decision.inject);
  assert.deepEqual([decision.code, decision.changes.map(({ op }) => op)], ["other", ["remove", "add"]]);
});
