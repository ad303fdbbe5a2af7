import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { test } from "node:test";
import { applyPatch } from "rfc6902";
import { parseAllDocuments } from "yaml";
import type { Delivery } from "#hostmap/delivery.ts";
import { parseHosts } from "#hostmap/hosts-text.ts";
import type { PodDnsSetup } from "#hostmap/pod-dns.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { createInjectionCache } from "./injection-cache.ts";
import { decideInjection, type OptIn } from "./injection-decision.ts";
import { encodePatch, patchOperations } from "./json-patch.ts";

// Input: fixtures/*.yaml (how the pod arrives, then the pod). Expected decision and patch: fixtures/*.patch.json.
//   To update those: npx node --test --test-update-snapshots webhook/golden.test.ts

interface Case {
  readonly optIn: OptIn;
  readonly operation?: string;
  readonly maxNames?: number;
  readonly noMap?: boolean;
  /** `pods.via`. */
  readonly via?: Delivery;
  /** The resolvers of pod DNS do not answer. */
  readonly notReady?: boolean;
}

const SETUP: PodDnsSetup = {
  resolvers: ["10.96.0.11", "10.96.0.12"],
  cluster: {
    servers: ["10.96.0.10"],
    domain: "cluster.local",
    nodeSearches: ["corp.example"],
    options: [{ name: "ndots", value: "5" }],
  },
};
const NOT_READY = { code: "dns-not-ready", text: "10.96.0.12 does not answer" };

interface PodLike {
  readonly metadata: object;
  readonly spec: { hostAliases?: unknown };
}

const FIXTURES = join(import.meta.dirname, "fixtures");
const map = publishedMapOf("fixture", parseHosts(readFileSync(join(FIXTURES, "map.hosts"), "utf8")));

function readCase(file: string): { how: Case; pod: PodLike } {
  const [how, pod] = parseAllDocuments(readFileSync(file, "utf8")).map((document) => document.toJS());
  return { how, pod };
}

function run({ optIn, operation = "CREATE", maxNames = 500, noMap, via = "hosts", notReady }: Case, object: PodLike) {
  const request = { uid: "u", kind: { group: "", kind: "Pod" }, operation, namespace: "shop", object };
  const setup = notReady ? NOT_READY : SETUP;
  const cache = noMap ? undefined : createInjectionCache(map, maxNames);
  return decideInjection(request, optIn, cache, { namespace: undefined, fallback: via, setup });
}

for (const file of globSync(join(FIXTURES, "*.yaml")).sort()) {
  test(`${basename(file)} gives the recorded decision and patch`, (t) => {
    const { how, pod } = readCase(file);
    const decision = run(how, pod);
    const actual = decision.inject
      ? {
          code: decision.code,
          warnings: decision.warnings,
          patch: patchOperations(decision.pod, decision.injection),
        }
      : decision;
    t.assert.fileSnapshot(actual, file.replace(/\.yaml$/, ".patch.json"));
  });

  test(`${basename(file)} needs no further patch once it is applied`, () => {
    const { how, pod } = readCase(file);
    const first = run(how, pod);
    if (!first.inject) return;
    const patch = encodePatch(first.pod, first.injection);
    assert.ok(patch !== undefined);
    const errors = applyPatch(pod, JSON.parse(Buffer.from(patch, "base64").toString("utf8")));
    assert.deepEqual(
      errors.filter((error) => error !== null),
      [],
    );
    assert.deepEqual(pod.spec.hostAliases ?? [], [...first.injection.userAliases, ...first.injection.managed.aliases]);
    const second = run(how, pod);
    assert.ok(second.inject);
    assert.equal(encodePatch(second.pod, second.injection), undefined);
  });
}
