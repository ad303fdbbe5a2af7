import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { install, status, subjectsOf, workload } from "#test/fakes/doctor-changes.ts";
import { FORBIDDEN, NOT_INSTALLED } from "#test/fakes/doctor-facts.ts";
import type { ClusterFacts } from "../facts.ts";

const conflict = (text: string) => ({ name: text, reason: { code: "conflict", text } });
const wildcard = { name: "*.example.com", reason: { code: "wildcard", text: "t" } };

/** A change to the facts of a healthy installation, and all findings of the check after it. */
const CASES: readonly [what: string, change: Partial<ClusterFacts>, findings: string[]][] = [
  ["all is well", status({ names: [{ name: "a" }, { name: "b" }, wildcard] }), []],
  ["Switchback is not installed", NOT_INSTALLED, []],
  ["it cannot be read", install({ status: FORBIDDEN }), ["unknown right-missing | controller"]],
  ["nobody leads", status({ leader: false }), ["broken no-leader | controller"]],
  [
    "two sources are not synced",
    status({
      sources: [
        { name: "ingress", synced: false },
        { name: "gateway", synced: false },
        { name: "files", synced: true },
      ],
    }),
    ["broken source-not-synced | controller"],
  ],
  [
    "objects are not taken as they are, by the code of the first",
    status({
      sources: [
        {
          name: "services",
          synced: true,
          problems: [
            { place: "Service edge/lb", code: "annotation-invalid", text: "v1 and v2" },
            { place: "Service edge/other", code: "annotation-invalid", text: "none and v2" },
          ],
        },
        { name: "files", synced: true, problems: [{ place: "a.yaml", code: "yaml-invalid", text: "t" }] },
      ],
    }),
    ["warning source-problems | controller"],
  ],
  ["the controller itself is not synced", status({ synced: false }), ["broken source-not-synced | controller"]],
  [
    "a removal is held",
    status({ hold: { names: 6, of: 10, until: Date.UTC(2026, 0, 1) } }),
    ["warning removal-held | controller"],
  ],
  [
    "names are refused, by the reason of the first",
    status({
      names: [
        conflict("held by a/b"),
        { name: "y", reason: { code: "over-quota", text: "more than 5" } },
        conflict("held by c/d"),
        wildcard,
        { name: "z" },
      ],
    }),
    ["warning names-refused | controller"],
  ],
  [
    "it has warnings",
    status({
      warnings: [
        { code: "many-names", text: "first" },
        { code: "other", text: "second" },
      ],
    }),
    ["warning many-names | controller", "warning other | controller"],
  ],
  [
    "what was seen at a port contradicts an annotation, or what another proxy saw",
    status({ warnings: [{ code: "header-contradicted", text: "first" }] }),
    ["warning header-contradicted | controller"],
  ],
  [
    "a workload is stuck, another waits, and a third has caught up",
    status({
      running: {
        workloads: [
          workload({ stale: 2 }),
          workload({ name: "b", standing: "waiting" }),
          workload({ name: "c", stale: 0 }),
        ],
      },
    }),
    ["warning workload-stuck | Deployment shop/web"],
  ],
];

describe("the controller check reads the leader's status:", () => {
  for (const [what, change, findings] of CASES) {
    test(what, () => assert.deepEqual(subjectsOf("controller", change), findings));
  }
});
