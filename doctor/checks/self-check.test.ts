import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { pod, rowsOf } from "#test/fakes/doctor-changes.ts";
import { FORBIDDEN, HEALTHY, NOT_INSTALLED } from "#test/fakes/doctor-facts.ts";
import { known } from "../fact.ts";
import type { ClusterFacts, HttpSolverFacts } from "../facts.ts";

const solvers = (...all: HttpSolverFacts[]): Partial<ClusterFacts> => ({ httpSolvers: known(all) });
const CHECKING = { issuer: "ClusterIssuer letsencrypt", waits: false };
const WAITING = { issuer: "Issuer shop/letsencrypt", waits: true };
const CURES =
  "set `waitInsteadOfSelfCheck: 60s` in the solver (cert-manager 1.21 and newer): " +
  "enough if nothing else calls the cluster's public names | or opt cert-manager in: " +
  "`kubectl label namespace cert-manager switchback.dev/inject=enabled`, and restart its Deployment";

/** A change to the facts of a healthy installation, and all findings of the check after it. */
const CASES: readonly [what: string, change: Partial<ClusterFacts>, findings: string[]][] = [
  ["there is no cert-manager", { httpSolvers: known(undefined) }, []],
  [
    "issuers cannot be read",
    { httpSolvers: FORBIDDEN },
    ["unknown right-missing | cert-manager | missing permission: get that"],
  ],
  ["no issuer uses HTTP-01", solvers(), ["ok self-check-none | cert-manager | no issuer has a solver for HTTP-01"]],
  [
    "each solver leaves it out",
    { ...NOT_INSTALLED, ...solvers(WAITING, WAITING) },
    [
      "ok self-check-left-out | cert-manager | each of 2 HTTP-01 solver(s) has waitInsteadOfSelfCheck: " +
        "cert-manager does not call the names itself, so only other pods may need a mapping",
    ],
  ],
  [
    "it is made, and short-circuited",
    { ...NOT_INSTALLED, ...solvers(WAITING, CHECKING) },
    [
      "warning self-check-at-risk | cert-manager | 1 of 2 HTTP-01 solver(s) " +
        "call a name before it is validated, the first of ClusterIssuer letsencrypt; " +
        `pods bypass a load balancer, and no pod of cert-manager has opted in | ${CURES}`,
    ],
  ],
  [
    "nothing is short-circuited",
    { ...solvers(CHECKING), services: known([]) },
    [
      "ok self-check-not-short-circuited | cert-manager | 1 of 1 HTTP-01 solver(s) " +
        "call a name before it is validated, the first of ClusterIssuer letsencrypt; " +
        "no load balancer is short-circuited",
    ],
  ],
  [
    "its pods have the mapping",
    { ...solvers(CHECKING), ...pod({ labels: { "app.kubernetes.io/name": "cert-manager" } }) },
    [
      "ok self-check-mapped | cert-manager | 1 of 1 HTTP-01 solver(s) call a name before it is validated, " +
        "the first of ClusterIssuer letsencrypt; cert-manager's pods have the mapping",
    ],
  ],
  [
    "its pods have opted in and are not injected",
    { ...solvers(CHECKING), ...pod({ labels: { app: "cert-manager" }, aliasAddresses: [] }) },
    [
      "warning self-check-at-risk | cert-manager | 1 of 1 HTTP-01 solver(s) " +
        "call a name before it is validated, the first of ClusterIssuer letsencrypt; " +
        `pods bypass a load balancer, and a pod of cert-manager has no mapping | ${CURES}`,
    ],
  ],
  [
    "pods cannot be read",
    { ...solvers(CHECKING), pods: FORBIDDEN },
    ["unknown right-missing | cert-manager | missing permission: get that"],
  ],
  [
    "Services cannot be read",
    { ...solvers(CHECKING), services: FORBIDDEN },
    ["unknown right-missing | cert-manager | missing permission: get that"],
  ],
];

describe("the self-check of cert-manager:", () => {
  for (const [what, change, findings] of CASES) {
    test(what, () => assert.deepEqual(rowsOf("self-check", { ...HEALTHY, ...change }), findings));
  }
});
