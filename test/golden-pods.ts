import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { test } from "node:test";
import { applyPatch } from "rfc6902";
import { parseAllDocuments } from "yaml";
import { BY_HOSTS } from "#hostmap/delivery.ts";
import { parseHosts } from "#hostmap/hosts-text.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import type { Delivery } from "#webhook/delivery.ts";
import { createInjectionCache } from "#webhook/injection-cache.ts";
import { decideInjection, type OptIn } from "#webhook/injection-decision.ts";
import { encodePatch, patchOperations } from "#webhook/json-patch.ts";

// Input: a folder's *.yaml (how the pod arrives, then the pod). Expected decision and patch: *.patch.json beside them.
//   To update those: npx node --test --test-update-snapshots, with the test file that names the folder.

export interface GoldenCase {
  readonly optIn: OptIn;
  readonly operation?: string;
  readonly maxNames?: number;
  readonly noMap?: boolean;
  /** `pods.via`. */
  readonly via?: string;
  /** A delivery that cannot give pods the names now. */
  readonly notReady?: boolean;
}

interface PodLike {
  readonly metadata: object;
  readonly spec: { hostAliases?: unknown };
}

const MAP = join(import.meta.dirname, "..", "webhook", "fixtures", "map.hosts");
const map = publishedMapOf("fixture", parseHosts(readFileSync(MAP, "utf8")));

function readCase(file: string): { how: GoldenCase; pod: PodLike } {
  const [how, pod] = parseAllDocuments(readFileSync(file, "utf8")).map((document) => document.toJS());
  return { how, pod };
}

function run(how: GoldenCase, object: PodLike, deliveries: readonly Delivery[]) {
  const { optIn, operation = "CREATE", maxNames = 500, noMap, via = BY_HOSTS } = how;
  const request = { uid: "u", kind: { group: "", kind: "Pod" }, operation, namespace: "shop", object };
  const cache = noMap ? undefined : createInjectionCache(map, maxNames);
  return decideInjection(request, optIn, cache, { fallback: via, deliveries });
}

/** Tests the pods of a folder; `deliveriesOf` are those of the webhook, by the case. */
export function testGoldenPods(folder: string, deliveriesOf: (how: GoldenCase) => readonly Delivery[]): void {
  for (const file of globSync(join(folder, "*.yaml")).sort()) {
    test(`${basename(file)} gives the recorded decision and patch`, (t) => {
      const { how, pod } = readCase(file);
      const decision = run(how, pod, deliveriesOf(how));
      const actual = decision.inject
        ? {
            code: decision.code,
            warnings: decision.warnings,
            patch: patchOperations(decision.pod, decision.injection, decision.changes),
          }
        : decision;
      t.assert.fileSnapshot(actual, file.replace(/\.yaml$/, ".patch.json"));
    });

    test(`${basename(file)} needs no further patch once it is applied`, () => {
      const { how, pod } = readCase(file);
      const first = run(how, pod, deliveriesOf(how));
      if (!first.inject) return;
      const patch = encodePatch(first.pod, first.injection, first.changes);
      assert.ok(patch !== undefined);
      const errors = applyPatch(pod, JSON.parse(Buffer.from(patch, "base64").toString("utf8")));
      assert.deepEqual(
        errors.filter((error) => error !== null),
        [],
      );
      assert.deepEqual(pod.spec.hostAliases ?? [], [
        ...first.injection.userAliases,
        ...first.injection.managed.aliases,
      ]);
      const second = run(how, pod, deliveriesOf(how));
      assert.ok(second.inject);
      assert.equal(encodePatch(second.pod, second.injection, second.changes), undefined);
    });
  }
}
