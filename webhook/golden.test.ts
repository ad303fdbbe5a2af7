import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { test } from "node:test";
import { applyPatch } from "rfc6902";
import { parseAllDocuments } from "yaml";
import { parseHosts } from "../hostmap/hosts-text.ts";
import { publishedMapOf } from "../snapshot/published-map.ts";
import { createInjectionCache } from "./injection-cache.ts";
import { decideInjection, type OptIn } from "./injection-decision.ts";
import { encodePatch, patchOperations } from "./json-patch.ts";

// Pod in (fixtures/*.yaml: how it comes, then the pod), decision and patch out (fixtures/*.patch.json). To write those anew:
//   npx node --test --test-update-snapshots webhook/golden.test.ts

interface Case {
  readonly optIn: OptIn;
  readonly operation?: string;
  readonly maxNames?: number;
  readonly noMap?: boolean;
}

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

function run({ optIn, operation = "CREATE", maxNames = 500, noMap }: Case, object: PodLike) {
  const request = { uid: "u", kind: { group: "", kind: "Pod" }, operation, object };
  return decideInjection(request, optIn, noMap ? undefined : createInjectionCache(map, maxNames));
}

for (const file of globSync(join(FIXTURES, "*.yaml")).sort()) {
  test(`${basename(file)} gives the decision and the patch on file`, (t) => {
    const { how, pod } = readCase(file);
    const decision = run(how, pod);
    const seen = decision.inject
      ? {
          code: decision.code,
          warnings: decision.chosen.warnings,
          patch: patchOperations(decision.pod, decision.injection),
        }
      : decision;
    t.assert.fileSnapshot(seen, file.replace(/\.yaml$/, ".patch.json"));
  });

  test(`${basename(file)} applied and sent again needs no further patch`, () => {
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
