import assert from "node:assert/strict";
import { test } from "node:test";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import type { AdmissionRequest } from "./admission-review.ts";
import { readPod } from "./admitted-pod.ts";
import { createInjectionCache } from "./injection-cache.ts";
import { decideInjection, type OptIn, type PodDns } from "./injection-decision.ts";

const NAMES = ["a.example.com", "b.example.com"];
const IP = "198.51.100.9";
const map = createInjectionCache(publishedMapOf("r", new Map(NAMES.map((name) => [name, [IP]]))), 500);
const INJECT = "switchback.dev/inject";

/** The creation of a pod with these labels and annotations. */
function creation(more: Partial<AdmissionRequest> = {}, metadata: object = {}, spec: object = {}): AdmissionRequest {
  const object = { metadata: { name: "web", ...metadata }, spec };
  return { uid: "u", kind: { group: "", kind: "Pod" }, operation: "CREATE", object, ...more };
}

const label = (value: string) => ({ labels: { [INJECT]: value } });
const mirror = { annotations: { "kubernetes.io/config.mirror": "" } };
const SKIPPED: ReadonlyArray<
  readonly [what: string, request: AdmissionRequest, optIn: OptIn, code: string, warn: boolean]
> = [
  ["another kind", creation({ kind: { group: "", kind: "Node" } }), "namespace", "not-a-pod", true],
  ["another group", creation({ kind: { group: "metrics.k8s.io", kind: "Pod" } }), "namespace", "not-a-pod", true],
  ["a subresource", creation({ subResource: "ephemeralcontainers" }), "namespace", "not-a-pod", true],
  ["an update", creation({ operation: "UPDATE" }), "namespace", "not-create", false],
  ["an update of a subresource", creation({ operation: "UPDATE", subResource: "x" }), "namespace", "not-a-pod", true],
  ["a malformed update", creation({ operation: "UPDATE", object: 1 }), "namespace", "not-create", false],
  ["a malformed pod", creation({ object: 1 }), "pod", "pod-malformed", true],
  ["a mirror pod", creation({}, mirror), "namespace", "mirror-pod", false],
  ["a mirror pod that opted in", creation({}, { ...mirror, ...label("enabled") }), "pod", "mirror-pod", false],
  ["a disabled mirror pod", creation({}, { ...mirror, ...label("disabled") }), "namespace", "mirror-pod", false],
  ["a disabled pod", creation({}, label("disabled")), "namespace", "pod-disabled", false],
  ["a disabled pod, by the pod's path", creation({}, label("disabled")), "pod", "pod-disabled", false],
  ["a pod without the label", creation(), "pod", "not-opted-in", false],
  ["a pod with another value of the label", creation({}, label("true")), "pod", "not-opted-in", false],
];
for (const [what, request, optIn, code, warn] of SKIPPED) {
  test(`${what} is not injected: ${code}`, () => {
    for (const loaded of [map, undefined]) {
      const { text: _text, ...decision } = { text: "", ...decideInjection(request, optIn, loaded) };
      assert.deepEqual(decision, { inject: false, code, warn });
    }
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
    [creation({}, label("true")), "namespace"],
    [creation({}, label("enabled")), "pod"],
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
  ["no object", undefined, /^the pod cannot be read: the object: is missing$/],
  ["no metadata", { spec: {} }, /: metadata: is missing$/],
  ["a list as spec", { metadata: {}, spec: [] }, /: spec: must be a map, not a list$/],
  [
    "labels that are a list",
    { metadata: { labels: ["x"] }, spec: {} },
    /: metadata\.labels: must be a map of strings$/,
  ],
  ["annotations of numbers", { metadata: { annotations: { a: "", b: 1 } }, spec: {} }, /: metadata\.annotations: must/],
  ["an alias without an address", { metadata: {}, spec: { hostAliases: [{}] } }, /: spec\.hostAliases: is missing$/],
];
for (const [what, object, text] of MALFORMED) {
  test(`a pod with ${what} is not injected, and its user is warned without its content`, () => {
    const decision = decideInjection(creation({ object }), "namespace", map);
    assert.ok(!decision.inject);
    assert.deepEqual([decision.code, decision.warn], ["pod-malformed", true]);
    assert.match(decision.text, text);
  });
}

test("readPod reads null and missing fields as empty", () => {
  const EMPTY = {
    labels: {},
    annotations: {},
    hasAnnotations: false,
    hasLabels: false,
    hostAliases: [],
    isWindows: false,
  };
  assert.deepEqual(readPod({ metadata: {}, spec: {} }), EMPTY);
  assert.deepEqual(readPod({ metadata: { labels: null, annotations: null }, spec: { hostAliases: null } }), EMPTY);
  assert.deepEqual(readPod({ metadata: { annotations: {} }, spec: {} }), { ...EMPTY, hasAnnotations: true });
  const hostAliases = [{ ip: "a", hostnames: ["b"] }, { ip: "c" }, { ip: "d", hostnames: null }];
  const metadata = { labels: { l: "1" }, annotations: { n: "2" } };
  assert.deepEqual(readPod({ metadata, spec: { hostAliases } }), {
    ...metadata,
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

const GIVEN = { userAliases: [], managed: { aliases: [], annotations: { given: "all" } } };
const ADD = { op: "add", path: "/spec/given", value: "all" } as const;
const REMOVE = { op: "remove", path: "/spec/given" } as const;
const NOT_READY = { code: "dns-not-ready", text: "why" };
const UNREADABLE = { code: "pod-malformed", text: "the pod cannot be read: spec.x" };
const gives: PodDns = (_request, _pod, isWanted) =>
  isWanted ? { changes: [ADD], given: { code: "given", injection: GIVEN } } : { changes: [REMOVE] };

test("the pod's label selects pod DNS or hostAliases, then its namespace's, then the install", () => {
  for (const [pod, namespace, fallback, code] of [
    ["dns", "hosts", "hosts", "given"],
    ["hosts", "dns", "dns", "injected"],
    [undefined, "dns", "hosts", "given"],
    [undefined, "hosts", "dns", "injected"],
    [undefined, undefined, "dns", "given"],
    [undefined, undefined, "hosts", "injected"],
  ] as const) {
    const labels = pod === undefined ? {} : { "switchback.dev/via": pod };
    const via = { fallback, namespace, podDns: gives };
    const decision = decideInjection(creation({}, { labels }), "namespace", map, via);
    assert.ok(decision.inject);
    const changes = code === "given" ? [ADD] : [REMOVE];
    assert.deepEqual([decision.code, decision.changes, decision.warnings], [code, changes, []]);
  }
});

test("a label that asks for pod DNS where the process has none is ignored, with a warning", () => {
  const decision = decideInjection(creation({}, { labels: { "switchback.dev/via": "dns" } }), "namespace", map);
  assert.ok(decision.inject);
  assert.deepEqual([decision.code, decision.warnings.map(({ code }) => code)], ["injected", ["via-invalid"]]);
});

test("a pod that pod DNS cannot serve gets hostAliases and the reason, after the warning of its label", () => {
  const podDns: PodDns = () => ({ changes: [REMOVE], problem: NOT_READY });
  const request = creation(
    {},
    { labels: { "switchback.dev/via": "x" }, annotations: { "switchback.dev/hosts": "*,_" } },
  );
  const decision = decideInjection(request, "namespace", map, { fallback: "dns", podDns });
  assert.ok(decision.inject);
  assert.deepEqual([decision.code, decision.changes], ["injected", [REMOVE]]);
  assert.deepEqual(
    decision.warnings.map(({ code }) => code),
    ["via-invalid", "dns-not-ready", "item-invalid"],
  );
});

test("a pod that pod DNS cannot read is not injected, and its user is warned", () => {
  const via = { fallback: "hosts", podDns: () => UNREADABLE };
  assert.deepEqual(decideInjection(creation(), "namespace", map, via), { ...UNREADABLE, inject: false, warn: true });
});

// Field case 20: 40 names at one address, and a pod that runs on Windows.
const FORTY = Array.from({ length: 40 }, (_, index) => `host-${String(index).padStart(2, "0")}.example.com`);
const many = createInjectionCache(publishedMapOf("r1", new Map(FORTY.map((name) => [name, [IP]]))), 500);
for (const [spec, lines] of [
  [{ os: { name: "windows" } }, [9, 9, 9, 9, 4]],
  [{ nodeSelector: { "kubernetes.io/os": "windows" } }, [9, 9, 9, 9, 4]],
  [{}, [23, 17]],
  [{ os: { name: "linux" } }, [23, 17]],
  [{ nodeSelector: { "kubernetes.io/os": "linux" } }, [23, 17]],
] as const) {
  test(`a pod with ${JSON.stringify(spec)} gets 40 names on lines of ${lines}`, () => {
    const decision = decideInjection(creation({}, {}, spec), "namespace", many);
    assert.ok(decision.inject);
    const { aliases } = decision.injection.managed;
    assert.deepEqual(
      aliases.map(({ ip, hostnames }) => [ip, hostnames.length]),
      lines.map((count) => [IP, count]),
    );
    assert.deepEqual(
      aliases.flatMap(({ hostnames }) => hostnames),
      FORTY,
    );
  });
}
