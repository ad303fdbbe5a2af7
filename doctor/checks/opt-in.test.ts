import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { install, namespaces, pods, subjectsOf } from "#test/fakes/doctor-changes.ts";
import { CONFIG, FORBIDDEN, NAMESPACE, NOT_INSTALLED } from "#test/fakes/doctor-facts.ts";
import { known } from "../fact.ts";
import type { ClusterFacts } from "../facts.ts";

const listing = (...listed: string[]) => install({ config: known({ ...CONFIG, optIn: { namespaces: listed } }) });

/** A change to the facts of a healthy installation, and all findings of the check after it. */
const CASES: readonly [what: string, change: Partial<ClusterFacts>, findings: string[]][] = [
  ["a namespace", {}, ["ok opted-in | namespaces"]],
  [
    "two namespaces, and one that says no",
    namespaces(["shop", "enabled"], ["edge", "enabled"], ["other", "disabled"]),
    ["ok opted-in | namespaces"],
  ],
  ["Switchback is not installed", NOT_INSTALLED, []],
  ["namespaces cannot be read", { namespaces: FORBIDDEN }, ["unknown right-missing | namespaces"]],
  [
    "pods only",
    { ...namespaces(["shop", "disabled"]), ...pods({ "switchback.dev/inject": "enabled" }) },
    ["ok opted-in | namespaces"],
  ],
  [
    "neither: a pod that says no",
    { ...namespaces(), ...pods({ "switchback.dev/inject": "disabled" }) },
    ["warning nobody-opted-in | namespaces"],
  ],
  [
    "no namespace, and pods cannot be read",
    { ...namespaces(), pods: FORBIDDEN },
    ["unknown right-missing | namespaces"],
  ],
  [
    "a label with another value",
    namespaces(["shop", "enabled"], ["other", "true"]),
    ["warning label-unknown | namespace other"],
  ],
  [
    "Switchback's own namespace",
    namespaces([NAMESPACE, "enabled"]),
    ["broken namespace-excluded | namespace switchback-system"],
  ],
  [
    "a namespace that opted in by name, and one whose label wins",
    { ...namespaces(["listed", undefined], ["other", "disabled"]), ...listing("listed", "other") },
    ["ok opted-in | namespaces"],
  ],
  [
    "a listed namespace that does not exist",
    { ...namespaces(["shop", "enabled"]), ...listing("cert-manger") },
    ["warning namespace-missing | namespace cert-manger"],
  ],
  [
    "a listed namespace that somebody excluded",
    { ...namespaces(["kube-system", undefined]), ...listing("kube-system") },
    ["broken namespace-excluded | namespace kube-system"],
  ],
  [
    "the configuration cannot be read",
    { ...namespaces(["kube-system", "enabled"]), ...install({ config: FORBIDDEN }) },
    ["ok opted-in | namespaces"],
  ],
];

describe("the opt-in check reports what opted in:", () => {
  for (const [what, change, findings] of CASES) {
    test(what, () => assert.deepEqual(subjectsOf("opt-in", change), findings));
  }
});
