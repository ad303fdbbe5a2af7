import assert from "node:assert/strict";
import { test } from "node:test";
import { applyPatch } from "rfc6902";
import { planInjection } from "#hostmap/inject.ts";
import type { HostAlias } from "#hostmap/types.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { fc } from "#test/property.ts";
import { readPod } from "./admitted-pod.ts";
import { createInjectionCache } from "./injection-cache.ts";
import { patchOperations, pointer } from "./json-patch.ts";

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
  return { pod, injection: planInjection(pod.hostAliases, pod.annotations, select(undefined), pod.pack) };
}

function inject(object: PodObject, map = loaded): PodObject {
  const { pod, injection } = planned(object, map);
  const result = structuredClone(object);
  const errors = applyPatch(result, structuredClone([...patchOperations(pod, injection)]));
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

test("the patch gives any pod the planned aliases, annotations and label, and a second one changes nothing", () => {
  fc.assert(
    fc.property(pods, (object) => {
      const { injection: plan } = planned(object);
      const after = inject(object);
      assert.deepEqual(after.spec.hostAliases ?? [], [...plan.userAliases, ...plan.managed.aliases]);
      assert.deepEqual(after.metadata.annotations, { ...object.metadata.annotations, ...plan.managed.annotations });
      assert.deepEqual(after.metadata.labels, { ...object.metadata.labels, [INJECTED]: "true" });
      assert.deepEqual(inject(after), after);
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

test("a patch that only adds aliases does not contain those of the user", () => {
  const theirs = { ip: "203.0.113.7", hostnames: ["x.example.net"] };
  const { pod, injection } = planned({ metadata: {}, spec: { hostAliases: [theirs] } });
  assert.ok(!JSON.stringify(patchOperations(pod, injection)).includes(theirs.ip));
});

test("pointer escapes ~ before /", () => {
  assert.equal(pointer("metadata", "annotations", "a/b~c~1"), "/metadata/annotations/a~1b~0c~01");
});
