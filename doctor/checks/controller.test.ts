import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { install, rowsOf, status, workload } from "#test/fakes/doctor-changes.ts";
import { FORBIDDEN, HEALTHY, NOT_INSTALLED } from "#test/fakes/doctor-facts.ts";
import type { ClusterFacts } from "../facts.ts";

const conflict = (text: string) => ({ name: text, reason: { code: "conflict", text } });
const wildcard = { name: "*.example.com", reason: { code: "wildcard", text: "t" } };

/** A change to the facts of a healthy installation, and all findings of the check after it. */
const CASES: readonly [what: string, change: Partial<ClusterFacts>, findings: string[]][] = [
  [
    "all is well",
    status({ names: [{ name: "a" }, { name: "b" }, wildcard] }),
    ["ok controller-settled | controller | all sources are synced, 3 name(s) are claimed, none is refused"],
  ],
  ["Switchback is not installed", NOT_INSTALLED, []],
  [
    "it cannot be read",
    install({ status: FORBIDDEN }),
    ["unknown right-missing | controller | missing permission: get that"],
  ],
  [
    "nobody leads",
    status({ leader: false }),
    [
      "broken no-leader | controller | no replica that answered is the leader: nothing is published, " +
        "and no certificate is renewed | run again in a minute; then check the controller's logs and Lease",
    ],
  ],
  [
    "two sources are not synced",
    status({
      sources: [
        { name: "ingress", synced: false },
        { name: "gateway", synced: false },
        { name: "files", synced: true },
      ],
    }),
    [
      "broken source-not-synced | controller | not synced: ingress, " +
        "gateway | check the controller's log for requests that the API server refuses",
    ],
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
    [
      "warning source-problems | controller | 3 object(s) are refused in whole or in part: " +
        "annotation-invalid (2: Service edge/lb: v1 and v2); yaml-invalid (1: a.yaml: t) " +
        "| see docs/codes.md for what to do about each code",
    ],
  ],
  [
    "the controller itself is not synced",
    status({ synced: false }),
    [
      "broken source-not-synced | controller | not synced: its own objects | check the controller's log for " +
        "requests that the API server refuses",
    ],
  ],
  [
    "a removal is held",
    status({ hold: { names: 6, of: 10, until: Date.UTC(2026, 0, 1) } }),
    [
      "warning removal-held | controller | 6 of 10 names are held in the map until 2026-01-01T00:00:00.000Z " +
        "| check the sources: the names leave at that time",
    ],
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
    [
      "warning names-refused | controller | 3 claim(s) are refused: conflict (2: held by a/b); " +
        "over-quota (1: more than 5) | `switchback status --refused` has each reason",
    ],
  ],
  [
    "it has warnings",
    status({
      warnings: [
        { code: "over-cap", text: "first" },
        { code: "other", text: "second" },
      ],
    }),
    [
      "warning over-cap | controller | first | `switchback status` has the details",
      "warning other | controller | second | `switchback status` has the details",
    ],
  ],
  [
    "what was seen at a port contradicts an annotation, or what another proxy saw",
    status({ warnings: [{ code: "header-contradicted", text: "first" }] }),
    [
      "warning header-contradicted | controller | first | if the ingress controller should expect the detected " +
        "header, correct the annotation | otherwise correct its setting, or make it trust all proxies " +
        "(docs/trust/README.md)",
    ],
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
    [
      "warning workload-stuck | Deployment shop/web | 2 pod(s) lack the current names and are not restarted: " +
        "restart-not-permitted: t | run `switchback restart NAMESPACE/WORKLOAD`; " +
        "docs/codes.md has each reason",
    ],
  ],
];

describe("the controller check reads the leader's status:", () => {
  for (const [what, change, findings] of CASES) {
    test(what, () => assert.deepEqual(rowsOf("controller", { ...HEALTHY, ...change }), findings));
  }
});
