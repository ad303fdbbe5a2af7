import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { admission, entries, install, namespaces, pod, rowsOf } from "#test/fakes/doctor-changes.ts";
import { CONFIG, FORBIDDEN, HEALTHY, NAMESPACE, NOT_INSTALLED } from "#test/fakes/doctor-facts.ts";
import { known } from "../fact.ts";
import type { ClusterFacts } from "../facts.ts";

const listing = (name: string) => install({ config: known({ ...CONFIG, optIn: { namespaces: [name] } }) });

/** A change to the facts of a healthy installation, and all findings of the check after it. */
const CASES: readonly [what: string, change: Partial<ClusterFacts>, findings: string[]][] = [
  ["a namespace", {}, ["ok opted-in | namespaces | opted in: shop"]],
  [
    "two namespaces, and one that says no",
    namespaces(["shop", "enabled"], ["edge", "enabled"], ["other", "disabled"]),
    ["ok opted-in | namespaces | opted in: shop, edge"],
  ],
  ["Switchback is not installed", NOT_INSTALLED, []],
  [
    "namespaces cannot be read",
    { namespaces: FORBIDDEN },
    ["unknown right-missing | namespaces | missing permission: get that"],
  ],
  [
    "pods only",
    { ...namespaces(["shop", "disabled"]), ...pod({ labels: { "switchback.dev/inject": "enabled" } }) },
    ["ok pods-opted-in | namespaces | no namespace opted in, but 1 pod(s) did"],
  ],
  [
    "neither: a pod that says no",
    { ...namespaces(), ...pod({ labels: { "switchback.dev/inject": "disabled" } }) },
    [
      "warning nobody-opted-in | namespaces | no namespace or pod has opted in: " +
        "nothing is injected | kubectl label namespace NAMESPACE switchback.dev/inject=enabled, " +
        "then restart its workloads",
    ],
  ],
  [
    "no namespace, and pods cannot be read",
    { ...namespaces(), pods: FORBIDDEN },
    [
      "unknown right-missing | namespaces | no namespace has opted in; it is unknown whether a pod has: " +
        "missing permission: get that",
    ],
  ],
  [
    "a label with another value",
    namespaces(["shop", "enabled"], ["other", "true"]),
    [
      'warning label-unknown | namespace other | its label switchback.dev/inject has the value "true", ' +
        "which has no effect | set the label to enabled",
    ],
  ],
  [
    "Switchback's own namespace",
    namespaces([NAMESPACE, "enabled"]),
    [
      "broken namespace-excluded | namespace switchback-system | it opted in, " +
        "but the webhook configuration excludes it: its pods are not injected | remove it from " +
        "`admission.excludedNamespaces`, or remove its label",
    ],
  ],
  [
    "a namespace that one entry excludes",
    {
      ...namespaces(["a", "enabled"], ["b", "enabled"]),
      ...entries(["namespace", { excludedNamespaces: ["a"] }], ["pod", { excludedNamespaces: ["b"] }]),
    },
    [
      "broken namespace-excluded | namespace a | it opted in, but the webhook configuration excludes it: " +
        "its pods are not injected | remove it from `admission.excludedNamespaces`, or remove its label",
      "broken namespace-excluded | namespace b | it opted in, but the webhook configuration excludes it: " +
        "its pods are not injected | remove it from `admission.excludedNamespaces`, or remove its label",
    ],
  ],
  [
    "a namespace that opted in by name, and one whose label wins",
    {
      ...namespaces(["shop", "enabled"], ["listed", undefined], ["other", "disabled"]),
      ...entries(["namespace"], ["listed", { listedNamespaces: ["listed", "other"] }], ["pod"]),
    },
    ["ok opted-in | namespaces | opted in: shop, listed"],
  ],
  [
    "a namespace that opted in by name, where the live configuration cannot be read",
    { ...namespaces(["listed", undefined]), ...admission({ configuration: FORBIDDEN }), ...listing("listed") },
    ["ok opted-in | namespaces | opted in: listed"],
  ],
  [
    "a listed namespace that does not exist",
    { ...namespaces(["shop", "enabled"]), ...entries(["listed", { listedNamespaces: ["cert-manger"] }]) },
    [
      "warning namespace-missing | namespace cert-manger | `config.optIn.namespaces` lists it, and it does not exist " +
        "| correct the name; or create the namespace, and run `helm upgrade` so that its workloads can be restarted",
    ],
  ],
  [
    "a listed namespace that somebody excluded",
    {
      ...namespaces(["listed", undefined]),
      ...entries(["listed", { listedNamespaces: ["listed"], excludedNamespaces: ["listed"] }]),
    },
    [
      "broken namespace-excluded | namespace listed | it opted in, but the webhook configuration excludes it: its " +
        "pods are not injected | remove it from `admission.excludedNamespaces`, " +
        "or remove it from `config.optIn.namespaces`",
    ],
  ],
  [
    "the live configuration counts, not the values",
    { ...namespaces(["kube-system", "enabled"]), ...entries(["namespace", { excludedNamespaces: [] }]) },
    ["ok opted-in | namespaces | opted in: kube-system"],
  ],
  [
    "the values count where the live configuration cannot be read",
    { ...namespaces(["kube-system", "enabled"]), ...admission({ configuration: FORBIDDEN }) },
    [
      "broken namespace-excluded | namespace kube-system | it opted in, " +
        "but the webhook configuration excludes it: its pods are not injected | remove it from " +
        "`admission.excludedNamespaces`, or remove its label",
    ],
  ],
  [
    "neither can be read",
    {
      ...namespaces(["kube-system", "enabled"]),
      ...admission({ configuration: FORBIDDEN }),
      ...install({ config: FORBIDDEN }),
    },
    ["ok opted-in | namespaces | opted in: kube-system"],
  ],
  [
    "there is no configuration at all",
    {
      ...namespaces(["kube-system", "enabled"]),
      ...admission({ configuration: known(undefined) }),
      ...install({ config: known(undefined) }),
    },
    ["ok opted-in | namespaces | opted in: kube-system"],
  ],
];

describe("the opt-in check reports what opted in:", () => {
  for (const [what, change, findings] of CASES) {
    test(what, () => assert.deepEqual(rowsOf("opt-in", { ...HEALTHY, ...change }), findings));
  }
});
