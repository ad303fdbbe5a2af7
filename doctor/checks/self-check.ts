import type { ClusterFacts, HttpSolverFacts, PodInfo } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { findLoadBalancers, shortCircuited } from "../load-balancers.ts";

const { ok, warning, unknown } = findingsOf("self-check");

const SUBJECT = "cert-manager";
const LABELS: readonly string[] = ["app.kubernetes.io/name", "app"];

/**
 * Whether cert-manager's HTTP-01 self-check succeeds. cert-manager calls the name before the ACME
 * server validates it, and a short circuit breaks that call. From 1.21 on a solver can skip the
 * call (cert-manager/cert-manager#8858).
 */
export function checkSelfCheck(facts: ClusterFacts): Finding[] {
  const { httpSolvers, pods } = facts;
  if (!httpSolvers.known) return [unknown(SUBJECT, httpSolvers.reason.code, httpSolvers.reason.text)];
  const solvers = httpSolvers.value;
  if (solvers === undefined) return [];
  if (solvers.length === 0) return [ok(SUBJECT, "self-check-none", "no issuer has a solver for HTTP-01")];
  const checking = solvers.filter(({ waits }) => !waits);
  if (checking.length === 0) {
    const evidence =
      `each of ${solvers.length} HTTP-01 solver(s) has waitInsteadOfSelfCheck: ` +
      "cert-manager does not call the names itself";
    return [ok(SUBJECT, "self-check-left-out", `${evidence}, so only other pods may need a mapping`)];
  }
  const evidence =
    `${checking.length} of ${solvers.length} HTTP-01 solver(s) call a name before it is validated, ` +
    `the first of ${issuerOf(checking)}`;
  if (!facts.services.known) return [unknown(SUBJECT, facts.services.reason.code, facts.services.reason.text)];
  if (!findLoadBalancers(facts).some((loadBalancer) => shortCircuited(loadBalancer).length > 0))
    return [ok(SUBJECT, "self-check-not-short-circuited", `${evidence}; no load balancer is short-circuited`)];
  if (!pods.known) return [unknown(SUBJECT, pods.reason.code, pods.reason.text)];
  const own = pods.value.filter(isCertManager);
  if (own.length > 0 && own.every(({ aliasAddresses }) => aliasAddresses.length > 0))
    return [ok(SUBJECT, "self-check-mapped", `${evidence}; cert-manager's pods have the mapping`)];
  return [
    warning(
      SUBJECT,
      "self-check-at-risk",
      `${evidence}; pods bypass a load balancer, and ` +
        `${own.length === 0 ? "no pod of cert-manager has opted in" : "a pod of cert-manager has no mapping"}`,
      "set `waitInsteadOfSelfCheck: 60s` in the solver (cert-manager 1.21 and newer): " +
        "enough if nothing else calls the cluster's public names",
      "or opt cert-manager in: `kubectl label namespace cert-manager switchback.dev/inject=enabled`, " +
        "and restart its Deployment",
    ),
  ];
}

function issuerOf([first]: readonly HttpSolverFacts[]): string {
  return first?.issuer ?? "";
}

/** Checks the labels of cert-manager's chart and manifests. Its webhook and cainjector call no names. */
function isCertManager({ labels }: PodInfo): boolean {
  return LABELS.some((label) => labels[label] === "cert-manager");
}
