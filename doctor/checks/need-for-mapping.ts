import { listSome } from "#lib/errors/printable.ts";
import { type ClusterFacts, objectKey } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import {
  filteredBy,
  findLoadBalancers,
  isProxied,
  type LoadBalancer,
  reachedByPods,
  shortCircuited,
} from "../load-balancers.ts";
import { proxyDeployment } from "../proxy-deployment.ts";
import { waysOut } from "../ways-out.ts";

const { ok, warning, unknown } = findingsOf("need");

const SUBJECT = "this cluster";
/**
 * The first finding: is anything broken that a mapping cures, and what else would cure it? The
 * other checks have the details.
 */
export function checkNeed(facts: ClusterFacts): Finding[] {
  if (!facts.services.known) return [unknown(SUBJECT, facts.services.reason.code, facts.services.reason.text)];
  const found = findLoadBalancers(facts);
  const all = found.filter(({ service }) => service.entries.length > 0);
  if (all.length === 0) {
    const unread = [facts.ingresses, facts.gateways].find((list) => !list.known);
    if (unread?.known === false) return [unknown(SUBJECT, unread.reason.code, unread.reason.text)];
    const pending = found.filter(({ service }) => service.type === "LoadBalancer");
    if (pending.length > 0) return [checkPending(pending)];
    return [
      ok(SUBJECT, "need-none", "no ingress controller has a load balancer with an address that kube-proxy handles"),
    ];
  }
  const seen = all.map((loadBalancer) => ({ loadBalancer, reached: reachedByPods(loadBalancer, facts) }));
  const cutOff = seen.flatMap(({ loadBalancer, reached }) => (reached === false ? loadBalancer : []));
  if (cutOff.length > 0) return [checkCutOff(cutOff, facts)];
  const open = seen.flatMap(({ loadBalancer, reached }) => {
    return reached === undefined && shortCircuited(loadBalancer).length > 0 ? loadBalancer : [];
  });
  if (open.length > 0) return [checkUnseen(open, facts)];
  return [
    ok(SUBJECT, "need-none", seen.map(({ loadBalancer, reached }) => goodReason(loadBalancer, reached)).join("; ")),
  ];
}

/** The provider has not written an address yet, so it is unknown whether pods will bypass the load balancer. */
function checkPending(pending: readonly LoadBalancer[]): Finding {
  const evidence = `the load balancer of ${list(pending)} has no address yet`;
  return unknown(SUBJECT, "need-pending", evidence, "run again once it has one");
}

function checkCutOff(cutOff: readonly LoadBalancer[], facts: ClusterFacts): Finding {
  const evidence = `pods get no answer at the address of ${list(cutOff)}, although the ingress controller answers`;
  if (cutOff.every((loadBalancer) => isCovered(loadBalancer, facts))) {
    return ok(SUBJECT, "need-met", `${evidence}; opted-in pods use a target instead`);
  }
  const exception = unreadInstall(evidence, facts) ?? checkCallers(evidence, facts);
  if (exception !== undefined) return exception;
  return warning(SUBJECT, "mapping-needed", `${evidence}${describeCallers(facts)}`, ...curesOf(cutOff, facts));
}

function checkUnseen(open: readonly LoadBalancer[], facts: ClusterFacts): Finding {
  const evidence = `pods bypass the load balancer of ${list(open)}`;
  if (open.every((loadBalancer) => isCovered(loadBalancer, facts))) {
    return ok(SUBJECT, "need-met", `${evidence}; opted-in pods use a target instead`);
  }
  const exception = unreadInstall(evidence, facts) ?? checkCallers(evidence, facts);
  if (exception !== undefined) return exception;
  const refused = facts.callers?.known ? facts.callers.value.refused : 0;
  if (refused > 0) {
    const refusal = `the ingress controller refused ${refused} connection(s) from the cluster without a PROXY header`;
    return warning(
      SUBJECT,
      "mapping-needed",
      `${evidence}; ${refusal}${describeCallers(facts)}`,
      ...curesOf(open, facts),
    );
  }
  const isFiltered = open.some((loadBalancer) => filteredBy(loadBalancer).length > 0);
  const isProbed = facts.probe?.known === true;
  const harm =
    "that does harm only if the ingress controller requires a PROXY header" +
    (isFiltered ? " or loadBalancerSourceRanges leave the pods out" : "") +
    `, which ${isProbed ? "the probe did not see" : "was not tested"}${describeCallers(facts)}`;
  const next = isProbed ? "check the ingress controller's pods and its log" : "run with --probe";
  return unknown(SUBJECT, "need-unseen", `${evidence}; ${harm}`, next, ...curesOf(open, facts));
}

/** cert-manager's own setting comes first: in many clusters only cert-manager calls public names. */
function curesOf(loadBalancers: readonly LoadBalancer[], facts: ClusterFacts): string[] {
  const { httpSolvers } = facts;
  const calls = httpSolvers.known && httpSolvers.value?.some(({ waits }) => !waits) === true;
  const waits =
    "if only cert-manager calls public names: `waitInsteadOfSelfCheck: 60s` in its HTTP-01 solvers (1.21 and newer)";
  const ways = loadBalancers.flatMap((loadBalancer) => waysOut(loadBalancer, facts));
  const [{ service }] = loadBalancers as [LoadBalancer];
  const look =
    `see whether anything but cert-manager calls public names: \`kubectl -n ${service.namespace} logs POD | ` +
    "switchback doctor --ingress-log -`";
  const unseen = isLeftOut(facts) && facts.callers === undefined;
  return [...new Set([...(calls ? [waits] : []), ...(unseen ? [look] : []), ...ways])];
}

/** Whether cert-manager issues by HTTP-01 without calling any name itself. */
function isLeftOut({ httpSolvers }: ClusterFacts): boolean {
  const solvers = (httpSolvers.known ? httpSolvers.value : undefined) ?? [];
  return solvers.length > 0 && solvers.every(({ waits }) => waits);
}

/** No mapping is needed if cert-manager does not call its names and the log shows no other caller. */
function checkCallers(evidence: string, facts: ClusterFacts): Finding | undefined {
  const { callers, httpSolvers } = facts;
  if (callers === undefined) return undefined;
  if (!callers.known) return unknown(SUBJECT, callers.reason.code, `${evidence}; ${callers.reason.text}`);
  const { workloads, masqueraded, selfChecks, total } = callers.value;
  const noSolver = httpSolvers.known && (httpSolvers.value ?? []).length === 0;
  const quiet = workloads.length === 0 && masqueraded === 0 && total > 0;
  if (!quiet || !(isLeftOut(facts) || (noSolver && selfChecks === 0))) return undefined;
  const nobody = `no pod is among the callers of the ${total} connections in the ingress controller's log`;
  const waits = isLeftOut(facts) ? ", and cert-manager waits instead of checking itself" : "";
  return ok(SUBJECT, "need-nobody", `${evidence}; but ${nobody}${waits}`);
}

/** The callers in the log, for the end of a sentence. */
function describeCallers({ callers }: ClusterFacts): string {
  if (!callers?.known) return "";
  const { workloads, masqueraded, selfChecks, total } = callers.value;
  if (total === 0) return "; the given log has no call that could be read";
  const named = workloads.slice(0, MAX_LISTED).map(({ owner, calls }) => `${owner} (${calls})`);
  const parts = [
    ...named,
    workloads.length > named.length ? `${workloads.length - named.length} more workloads` : [],
    masqueraded > 0 ? `${masqueraded} refused calls from a node's address, which hides the pod's` : [],
    selfChecks > 0 ? `${selfChecks} self-checks of cert-manager` : [],
  ].flat();
  return `; callers in the cluster, from the log: ${parts.length === 0 ? "none" : parts.join(", ")}`;
}

/** Whether a working target covers the names of this load balancer. */
function isCovered({ target }: LoadBalancer, facts: ClusterFacts): boolean {
  if (target === undefined) return false;
  if (target.state === "direct") return true;
  return target.state === "published" && (proxyDeployment(facts)?.ready ?? 0) > 0;
}

/** If the installation could not be read, it is unknown whether a target covers the names. */
function unreadInstall(evidence: string, { install }: ClusterFacts): Finding | undefined {
  const unread = [install.config, install.targets, install.deployments].find((fact) => !fact.known);
  if (unread?.known !== false) return undefined;
  return unknown(SUBJECT, unread.reason.code, `${evidence}; ${unread.reason.text}`);
}

function goodReason(loadBalancer: LoadBalancer, reached: boolean | undefined): string {
  const name = `Service ${objectKey(loadBalancer.service)}`;
  if (reached === true) return `pods get an answer at the address of ${name}`;
  const hasIp = loadBalancer.service.entries.some(({ ip }) => ip !== undefined);
  const family = hasIp ? "has no IP of a family of its ClusterIPs" : "has a hostname and no IP";
  const why = isProxied(loadBalancer) ? "has ipMode Proxy" : family;
  return `the load balancer of ${name} ${why}: pods do not bypass it (not probed)`;
}

/** Maximum number of Services in a finding. */
const MAX_LISTED = 5;

function list(loadBalancers: readonly LoadBalancer[]): string {
  return listSome(loadBalancers, MAX_LISTED, ({ service }) => `Service ${objectKey(service)}`);
}
