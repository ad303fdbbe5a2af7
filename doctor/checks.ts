import { checkAdmission } from "./checks/admission.ts";
import { leftoverFindings } from "./checks/dns-of-other-tools.ts";
import { checkHeaders } from "./checks/expected-headers.ts";
import { checkInstall } from "./checks/install.ts";
import { checkNames } from "./checks/names.ts";
import { checkNeed } from "./checks/need-for-mapping.ts";
import { checkNodeAddresses } from "./checks/node-address.ts";
import { checkOptIn } from "./checks/opt-in.ts";
import { checkPods } from "./checks/pods.ts";
import { checkRelay } from "./checks/relay.ts";
import { checkSelfCheck } from "./checks/self-check.ts";
import { checkShortCircuit } from "./checks/short-circuit.ts";
import { checkStatus } from "./checks/status.ts";
import { checkTargets } from "./checks/targets.ts";
import { checkWebhook } from "./checks/webhook.ts";
import type { Check, ClusterFacts } from "./facts.ts";
import { type Finding, findingsOf } from "./findings.ts";
import { isInstalled } from "./is-installed.ts";

/**
 * All checks, in the order of the report: Does the cluster need this? Does it have the problem?
 * Does Switchback work? Does the mapping reach pods?
 */
const CHECKS: readonly Check[] = [
  checkNeed,
  checkShortCircuit,
  checkNodeAddresses,
  checkHeaders,
  checkNames,
  checkSelfCheck,
  checkInstall,
  checkTargets,
  checkRelay,
  checkWebhook,
  checkAdmission,
  checkController,
  checkOptIn,
  checkPods,
  (facts) => (facts.added ?? []).flatMap((check) => check(facts)),
  leftoverFindings,
];

/** Runs all checks. A pure function of the facts. */
export function examine(facts: ClusterFacts): Finding[] {
  return CHECKS.flatMap((check) => check(facts));
}

const { unknown } = findingsOf("controller");

/**
 * Checks the controller's status: leader, unread sources and objects, held removals, refused names,
 * stuck workloads.
 */
function checkController(facts: ClusterFacts): Finding[] {
  if (isInstalled(facts) === false) return [];
  const { status } = facts.install;
  return status.known ? checkStatus(status.value) : [unknown("controller", status.reason.code, status.reason.text)];
}
