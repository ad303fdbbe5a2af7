import assert from "node:assert/strict";
import { test } from "node:test";
import { applyPatch } from "rfc6902";
import { planInjection } from "#hostmap/inject.ts";
import type { HostAlias } from "#hostmap/types.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { fc } from "#test/property.ts";
import { readPod } from "./admitted-pod.ts";
import { createInjectionCache } from "./injection-cache.ts";
import { encodePatch, patchOperations, pointer } from "./json-patch.ts";

const NAMES = ["a.example.com", "b.example.com", "c.example.org"];

function mapTo(ip: string) {
  return createInjectionCache(publishedMapOf("r", new Map(NAMES.map((name) => [name, [ip]]))), 500);
}

const INJECTED = "switchback.dev/injected";
const loaded = mapTo("198.51.100.9");

interface PodObject {
  metadata: { annotations?: Record<string, string>; labels?: Record<string, string> };
  spec: { hostAliases?: HostAlias[] };
}

/** How the pod is injected. */
function planned(object: PodObject, { select } = loaded) {
  const pod = readPod(object);
  const selection = select(undefined);
  return { pod, injection: planInjection(pod, selection, selection.build) };
}

function inject(object: PodObject, map = loaded): PodObject {
  const { pod, injection } = planned(object, map);
  const patch = encodePatch(pod, injection);
  const result = structuredClone(object);
  if (patch === undefined) return result;
  const errors = applyPatch(result, JSON.parse(Buffer.from(patch, "base64").toString("utf8")));
  assert.ok(errors.every((error) => error === null));
  return result;
}

const pods: fc.Arbitrary<PodObject> = fc.record({
  metadata: fc.record(
    {
      annotations: fc.dictionary(fc.constantFrom("a/b", "c~d", "switchback.dev/owned"), fc.string()),
      labels: fc.dictionary(fc.constantFrom("app", INJECTED), fc.constantFrom("web", "true")),
    },
    { requiredKeys: [] },
  ),
  spec: fc.record(
    {
      hostAliases: fc.array(
        fc.record({
          ip: fc.constantFrom("203.0.113.7", "198.51.100.9"),
          hostnames: fc.array(fc.constantFrom(...NAMES, "mine.example.com"), { maxLength: 3 }),
        }),
        { maxLength: 4 },
      ),
    },
    { requiredKeys: [] },
  ),
});

test("the patch gives any pod the planned aliases, annotations and label, and no second patch is needed", () => {
  fc.assert(
    fc.property(pods, (object) => {
      const { injection: plan } = planned(object);
      const after = inject(object);
      assert.deepEqual(after.spec.hostAliases ?? [], [...plan.userAliases, ...plan.managed.aliases]);
      assert.deepEqual(after.metadata.annotations, { ...object.metadata.annotations, ...plan.managed.annotations });
      assert.deepEqual(after.metadata.labels, { ...object.metadata.labels, [INJECTED]: "true" });
      const again = planned(after);
      assert.equal(encodePatch(again.pod, again.injection), undefined);
    }),
  );
});

test("a second pass with another map gives the same result as one pass with it", () => {
  fc.assert(
    fc.property(pods, (object) => {
      const other = mapTo("198.51.100.20");
      assert.deepEqual(inject(inject(object), other), inject(object, other));
    }),
  );
});

test("with an empty map the aliases of an earlier map are removed", () => {
  const empty = createInjectionCache(publishedMapOf("r", new Map()), 500);
  const after = inject(inject({ metadata: {}, spec: {} }), empty);
  assert.equal(after.spec.hostAliases, undefined);
  assert.equal(after.metadata.annotations?.[INJECTED], "none");
});

test("similar pods share one patch, also if they have user aliases", () => {
  const patchFor = (object: PodObject) => {
    const { pod, injection } = planned(object);
    return encodePatch(pod, injection);
  };
  const shapes: PodObject[] = [
    { metadata: {}, spec: {} },
    { metadata: { annotations: {} }, spec: {} },
    { metadata: { labels: {} }, spec: {} },
    { metadata: {}, spec: { hostAliases: [{ ip: "203.0.113.7", hostnames: ["x.example.net"] }] } },
    { metadata: {}, spec: { hostAliases: [{ ip: "203.0.113.7", hostnames: ["a.example.com"] }] } },
  ];
  const patches = shapes.map(patchFor);
  assert.equal(new Set(patches).size, shapes.length);
  const { pod, injection } = planned({
    metadata: {},
    spec: { hostAliases: [{ ip: "203.0.113.8", hostnames: ["y.example.net"] }] },
  });
  // Same as the fourth shape: the shape decides, not the user's names.
  assert.equal(encodePatch(pod, injection), patches[3]);
  assert.deepEqual(
    JSON.parse(Buffer.from(patches[3] ?? "", "base64").toString("utf8")),
    patchOperations(pod, injection),
  );
});

test("pointer escapes ~ before /", () => {
  assert.equal(pointer("metadata", "annotations", "a/b~c~1"), "/metadata/annotations/a~1b~0c~01");
});
