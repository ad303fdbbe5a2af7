import assert from "node:assert/strict";
import { test } from "node:test";
import { packLines } from "#hostmap/pack.ts";
import { createSelector } from "#hostmap/pod-selection.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { goodNames } from "#test/arbitraries.ts";
import { aliasesText, kubeletText } from "#test/fakes/kubelet-files.ts";
import { fc } from "#test/property.ts";
import { applyLive } from "./live-hosts.ts";
import { liveAliases } from "./live-hosts-plan.ts";
import { createLivePlans } from "./live-plans.ts";

const ips = fc.constantFrom("198.51.100.9", "198.51.100.10");
const maps = fc.dictionary(goodNames, fc.uniqueArray(ips, { minLength: 1, maxLength: 2 }), { maxKeys: 20 });
/** A pod's own name may also be a public name. */
const ownNames = fc.oneof(fc.constantFrom("api-0", "api-1", "api-2"), goodNames);

test("property: results that are cached for other pods do not change a pod's result", () => {
  fc.assert(
    fc.property(
      fc.array(maps, { minLength: 1, maxLength: 3 }),
      fc.array(fc.record({ own: ownNames, spec: fc.nat(2), annotation: fc.nat(1) }), { maxLength: 12 }),
      fc.constantFrom("", "10.0.0.2 added.example.com\n"),
      (states, pods, added) => {
        const plans = createLivePlans();
        const specs = states.map((state) => packLines(Object.entries(state)));
        const files = pods.map(({ own, spec, annotation }) => {
          const managedAliases = specs[spec % specs.length] ?? [];
          const text = kubeletText(aliasesText(managedAliases) + added, `10.32.0.7\t${own}`);
          return {
            managedAliases,
            annotation: annotation === 0 ? undefined : "*.example.com",
            content: Buffer.from(text, "latin1"),
          };
        });
        for (const [revision, state] of states.entries()) {
          const select = createSelector(publishedMapOf(`r${revision}`, new Map(Object.entries(state))), 500);
          plans.clear();
          for (const file of files) {
            const selected = select(file.annotation);
            const expected = applyLive(file.content.toString("latin1"), liveAliases(file.managedAliases), selected);
            const actual = plans.apply(file.content, file.managedAliases, selected);
            assert.equal(actual.toString("latin1"), expected);
            file.content = Buffer.from(actual);
          }
        }
      },
    ),
  );
});
