import assert from "node:assert/strict";
import { test } from "node:test";
import type { OnChange } from "#hostmap/on-change.ts";
import { parseConfig } from "#lib/config/parse.ts";
import type { NamespaceFacts } from "#lib/workloads/namespaces.ts";
import { podFacts } from "#lib/workloads/pods.ts";
import { createLiveMode } from "./live-mode.ts";
import type { NodePod } from "./node-pod.ts";
import type { OwnerAnnotation } from "./owner-annotations.ts";

const POD: NodePod = {
  ...podFacts({ metadata: { namespace: "shop", labels: { "switchback.dev/inject": "enabled" } } }),
  managedAliases: [],
  ended: false,
};

interface Case {
  readonly pod?: Partial<NodePod>;
  /** Facts of a watched namespace. Without them, the namespace is not watched, and is read with a GET. */
  readonly namespace?: Partial<NamespaceFacts>;
  /** Facts that were read. Undefined: nothing yet. Absent: the namespace has neither label nor annotation. */
  readonly read?: Partial<NamespaceFacts> | undefined;
  /** Undefined: the mode must not depend on the workload. */
  readonly workload?: OwnerAnnotation;
  readonly install?: OnChange;
  readonly synced?: boolean;
  /** The configuration opts the namespace in by name. */
  readonly listed?: true;
}

const known = (onChange?: string): OwnerAnnotation => ({ known: true, onChange });
const unknown: OwnerAnnotation = { known: false };

function modeOf(facts: Case): string {
  const { pod, namespace, read, workload, install = "restart", synced = true, listed } = facts;
  const full = (part: Partial<NamespaceFacts>) => ({ inject: "enabled", onChange: undefined, ...part });
  const optIn = { namespaces: listed ? ["shop"] : [] };
  const mode = createLiveMode({
    config: parseConfig({ namespace: "own", pods: { onChange: install, excludedNamespaces: ["closed"] }, optIn }),
    namespaces: { synced, get: () => namespace && full(namespace) },
    onChangeOf: () => workload ?? assert.fail("the workload was asked for"),
    namespaceOf: () => {
      assert.ok(namespace === undefined && synced, "the namespace was read");
      return "read" in facts ? read && full(read) : { inject: undefined, onChange: undefined };
    },
  });
  return mode({ ...POD, ...pod });
}

for (const [what, facts, expected] of [
  ["the namespaces are not known", { synced: false, pod: { onChange: "live" } }, "unknown"],
  ["nobody opted in", { pod: { inject: undefined }, install: "live" }, "no"],
  ["the pod opted out", { pod: { inject: "disabled" }, namespace: { inject: "enabled" }, install: "live" }, "no"],
  ["the pod's namespace is excluded", { pod: { namespace: "closed", onChange: "live" } }, "no"],
  ["the pod is one of Switchback's own", { pod: { namespace: "own", onChange: "live" } }, "no"],
  ["the pod resolves through pod DNS", { pod: { revision: "dns", onChange: "live" } }, "no"],
  ["the pod says live", { pod: { onChange: "live" } }, "live"],
  ["the pod says restart", { pod: { onChange: "restart" }, install: "live" }, "no"],
  [
    "its namespace opted in",
    { pod: { inject: undefined, onChange: "live" }, namespace: { inject: "enabled" } },
    "live",
  ],
  ["its namespace is listed", { listed: true, pod: { inject: undefined, onChange: "live" } }, "live"],
  [
    "its namespace is listed, and says live",
    { listed: true, pod: { inject: undefined }, workload: known(), read: { inject: undefined, onChange: "live" } },
    "live",
  ],
  [
    "its namespace is listed and opted out",
    { listed: true, pod: { inject: undefined, onChange: "live" }, namespace: { inject: "disabled" } },
    "no",
  ],
  ["its namespace is not there", { pod: { namespace: "gone", onChange: "live" } }, "live"],
  ["the workload is not known", { workload: unknown, namespace: { onChange: "live" }, install: "live" }, "unknown"],
  ["the workload says live", { workload: known("live") }, "live"],
  ["the workload says none", { workload: known("none"), namespace: { onChange: "live" }, install: "live" }, "no"],
  ["the namespace says live", { workload: known(), namespace: { onChange: "live" } }, "live"],
  ["the namespace says none", { workload: known(), namespace: { onChange: "none" }, install: "live" }, "no"],
  ["the install says live", { workload: known(), namespace: {}, install: "live" }, "live"],
  ["nobody says live", { workload: known(), namespace: {} }, "no"],
  ["a namespace that is read says live", { workload: known(), read: { onChange: "live" } }, "live"],
  ["a namespace that is read says none", { workload: known(), read: { onChange: "none" }, install: "live" }, "no"],
  ["a namespace that is read opted in", { pod: { inject: undefined, onChange: "live" }, read: {} }, "live"],
  ["a namespace says nothing", { workload: known(), install: "live" }, "live"],
  ["a namespace is not read yet", { pod: { onChange: "live" }, read: undefined }, "unknown"],
  ["a listed namespace is not read yet", { listed: true, pod: { onChange: "live" }, read: undefined }, "unknown"],
  ["the pod says something else", { pod: { onChange: "sometimes" }, workload: known("live") }, "live"],
] as const satisfies ReadonlyArray<readonly [string, Case, string]>) {
  test(`if ${what}, a pod's live mode is ${expected}`, () => {
    assert.equal(modeOf(facts), expected);
  });
}
