import assert from "node:assert/strict";
import { test } from "node:test";
import { packLines } from "#hostmap/pack.ts";
import type { HostAlias } from "#hostmap/types.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import type { AdmissionRequest } from "./admission-review.ts";
import { readPod } from "./admitted-pod.ts";
import { createInjectionCache } from "./injection-cache.ts";
import { type Decision, decideInjection, type OptIn, type PodDns } from "./injection-decision.ts";

const NAMES = ["a.example.com", "b.example.com"];
const IP = "198.51.100.9";
const map = createInjectionCache(publishedMapOf("r", new Map(NAMES.map((name) => [name, [IP]]))), 500);
const INJECT = "switchback.dev/inject";

/** The creation of a pod with these labels and annotations. */
function creation(more: Partial<AdmissionRequest> = {}, metadata: object = {}, spec: object = {}): AdmissionRequest {
  const object = { metadata: { name: "web", ...metadata }, spec };
  return { uid: "u", kind: { group: "", kind: "Pod" }, operation: "CREATE", object, ...more };
}

const operations = ({ patch = [] }: Decision) => patch.map((each) => ({ value: undefined, ...each }));
/** The aliases that a pod without aliases gets. */
const aliasesIn = (decision: Decision) =>
  operations(decision).flatMap(({ path, value }) => (path === "/spec/hostAliases" ? (value as HostAlias[]) : []));
/** The changes for pod DNS. */
const changesIn = ({ patch = [] }: Decision) => patch.filter(({ path }) => path === ADD.path);

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
      const decision = decideInjection(request, optIn, loaded);
      const warned = decision.warnings.map((warning) => warning.code);
      assert.deepEqual([decision.code, warned, decision.patch], [code, warn ? [code] : [], undefined]);
    }
  });
}

const MALFORMED: ReadonlyArray<readonly [what: string, object: unknown, text: RegExp]> = [
  ["no object", undefined, /^switchback: the pod cannot be read: the object: is missing$/],
  ["no metadata", { spec: {} }, /: metadata: is missing$/],
  ["a list as spec", { metadata: {}, spec: [] }, /: spec: must be a map, not a list$/],
  ["annotations of numbers", { metadata: { annotations: { a: "", b: 1 } }, spec: {} }, /: metadata\.annotations: must/],
  ["an alias without an address", { metadata: {}, spec: { hostAliases: [{}] } }, /: spec\.hostAliases: is missing$/],
];
for (const [what, object, text] of MALFORMED) {
  test(`a pod with ${what} is not injected, and its user is warned without its content`, () => {
    const { code, warnings, patch } = decideInjection(creation({ object }), "namespace", map);
    assert.deepEqual([code, patch], ["pod-malformed", undefined]);
    assert.match(warnings.map((warning) => warning.text).join(), text);
  });
}

test("readPod reads null and missing fields as empty", () => {
  const EMPTY = {
    labels: {},
    annotations: {},
    hasAnnotations: false,
    hasLabels: false,
    hostAliases: [],
    pack: packLines,
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
    pack: packLines,
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
    const changes = code === "given" ? [ADD] : [REMOVE];
    assert.deepEqual([decision.code, changesIn(decision), decision.warnings], [code, changes, []]);
    assert.equal(JSON.stringify(decision.patch).includes('{"given":"all"}'), code === "given");
  }
});

test("a label that asks for pod DNS where the process has none is ignored, with a warning", () => {
  const decision = decideInjection(creation({}, { labels: { "switchback.dev/via": "dns" } }), "namespace", map);
  assert.deepEqual([decision.code, decision.warnings.map(({ code }) => code)], ["injected", ["via-invalid"]]);
});

test("a pod that pod DNS cannot serve gets hostAliases and the reason, after the warning of its label", () => {
  const podDns: PodDns = () => ({ changes: [REMOVE], problem: NOT_READY });
  const request = creation(
    {},
    { labels: { "switchback.dev/via": "x" }, annotations: { "switchback.dev/hosts": "*,_" } },
  );
  const decision = decideInjection(request, "namespace", map, { fallback: "dns", podDns });
  assert.deepEqual([decision.code, changesIn(decision)], ["injected", [REMOVE]]);
  assert.deepEqual(
    decision.warnings.map(({ code }) => code),
    ["via-invalid", "dns-not-ready", "item-invalid"],
  );
});

test("a pod that pod DNS cannot read is not injected, and its user is warned", () => {
  const via = { fallback: "hosts", podDns: () => UNREADABLE };
  const warning = { ...UNREADABLE, text: `switchback: ${UNREADABLE.text}` };
  assert.deepEqual(decideInjection(creation(), "namespace", map, via), { code: "pod-malformed", warnings: [warning] });
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
    const aliases = aliasesIn(decision);
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
