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

const { unknown } = findingsOf("controller");

const checkController: Check = ({ install: { status } }) =>
  status.known ? checkStatus(status.value) : [unknown("controller", status.reason.code, status.reason.text)];

/** In the order of the report: Do pods reach the cluster's public names? Does Switchback work? */
const CHECKS: readonly Check[] = [checkReach, checkNames, checkInstall];
const OF_INSTALLATIONS: readonly Check[] = [checkTargets, checkWebhook, checkAdmission, checkController, checkOptIn];

/** Runs all checks. A pure function of the facts. */
export function examine(facts: ClusterFacts): Finding[] {
  const checks = isInstalled(facts) === false ? CHECKS : [...CHECKS, ...OF_INSTALLATIONS];
  return [...checks, ...(facts.added ?? [])].flatMap((check) => check(facts));
}
