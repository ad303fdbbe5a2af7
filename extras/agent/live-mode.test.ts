import assert from "node:assert/strict";
import { test } from "node:test";
import type { OnChange } from "#hostmap/on-change.ts";
import { parseConfig } from "#lib/config/parse.ts";
import type { NamespaceFacts } from "#lib/workloads/namespaces.ts";
import { createLiveMode } from "./live-mode.ts";
import type { NodePod } from "./node-pod.ts";
import type { OwnerAnnotation } from "./owner-annotations.ts";

const POD: NodePod = {
  namespace: "shop",
  name: "a",
  uid: "u",
  owner: undefined,
  inject: "enabled",
  mirror: false,
  hosts: undefined,
  onChange: undefined,
  managedAliases: [],
  ended: false,
};

interface Case {
  readonly pod?: Partial<NodePod>;
  /** Undefined: the namespace has no label, so nothing is known of it. */
  readonly namespace?: Partial<NamespaceFacts>;
  /** The annotation of a namespace without the label; absent: the answer must not depend on it. */
  readonly unlabelled?: OwnerAnnotation;
  /** Undefined: the answer must not depend on the workload. */
  readonly workload?: OwnerAnnotation;
  readonly install?: OnChange;
  readonly synced?: boolean;
  /** The configuration opts the namespace in by name. */
  readonly listed?: true;
}

const known = (onChange?: string): OwnerAnnotation => ({ known: true, onChange });
const unknown: OwnerAnnotation = { known: false };

function modeOf({ pod, namespace, unlabelled, workload, install = "restart", synced = true, listed }: Case): string {
  const facts = namespace && { inject: "enabled", onChange: undefined, ...namespace };
  const optIn = { namespaces: listed ? ["shop"] : [] };
  const mode = createLiveMode({
    config: parseConfig({ namespace: "own", pods: { onChange: install, excludedNamespaces: ["closed"] }, optIn }),
    namespaces: { state: { synced }, objects: () => new Map(facts && [["shop", facts]]) },
    onChangeOf: () => workload ?? assert.fail("the workload was asked for"),
    namespaceOnChangeOf: (name) => {
      assert.equal(name, "shop");
      return unlabelled ?? assert.fail("the namespace was asked for");
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
  ["the pod resolves through pod DNS", { pod: { byDns: true, onChange: "live" } }, "no"],
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
    { listed: true, pod: { inject: undefined }, workload: known(), unlabelled: known("live") },
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
  ["a namespace without the label says live", { workload: known(), unlabelled: known("live") }, "live"],
  ["a namespace without the label says none", { workload: known(), unlabelled: known("none"), install: "live" }, "no"],
  ["a namespace without the label says nothing", { workload: known(), unlabelled: known(), install: "live" }, "live"],
  [
    "a namespace without the label is not known",
    { workload: known(), unlabelled: unknown, install: "live" },
    "unknown",
  ],
  ["the pod says something else", { pod: { onChange: "sometimes" }, workload: known("live") }, "live"],
] as const satisfies ReadonlyArray<readonly [string, Case, string]>) {
  test(`where ${what} a pod's live mode is ${expected}`, () => {
    assert.equal(modeOf(facts), expected);
  });
}
