import type { ClusterFacts } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { isInstalled } from "../is-installed.ts";
import { checkStatus } from "./status.ts";

const { unknown } = findingsOf("controller");

/**
 * Checks the controller's status: leader, unread sources and objects, held removals, refused names,
 * stuck workloads.
 */
export function checkController(facts: ClusterFacts): Finding[] {
  if (isInstalled(facts) === false) return [];
  const { status } = facts.install;
  return status.known ? checkStatus(status.value) : [unknown("controller", status.reason.code, status.reason.text)];
}
