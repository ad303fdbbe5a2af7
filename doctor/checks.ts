import { checkAdmission, checkWebhook } from "./checks/admission.ts";
import { checkInstall } from "./checks/install.ts";
import { checkNames } from "./checks/names.ts";
import { checkOptIn } from "./checks/opt-in.ts";
import { checkReach } from "./checks/reach.ts";
import { checkStatus } from "./checks/status.ts";
import { checkTargets } from "./checks/targets.ts";
import type { Check, ClusterFacts } from "./facts.ts";
import { type Finding, findingsOf } from "./findings.ts";
import { isInstalled } from "./is-installed.ts";

/** All checks, in the order of the report: Do pods reach the cluster's public names? Does Switchback work? */
const CHECKS: readonly Check[] = [
  checkReach,
  checkNames,
  checkInstall,
  checkTargets,
  checkWebhook,
  checkAdmission,
  checkController,
  checkOptIn,
  (facts) => (facts.added ?? []).flatMap((check) => check(facts)),
];

/** Runs all checks. A pure function of the facts. */
export function examine(facts: ClusterFacts): Finding[] {
  return CHECKS.flatMap((check) => check(facts));
}

const { unknown } = findingsOf("controller");

/** Checks the controller's status. */
function checkController(facts: ClusterFacts): Finding[] {
  if (isInstalled(facts) === false) return [];
  const { status } = facts.install;
  return status.known ? checkStatus(status.value) : [unknown("controller", status.reason.code, status.reason.text)];
}
