import { describePermission } from "../fact.ts";
import type { ClusterFacts } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { isInstalled } from "../is-installed.ts";
import { SMALL_DEPLOYMENT } from "../proxy-deployment.ts";
import { rulesOf } from "./opt-in.ts";

const { ok, broken, unknown } = findingsOf("admission");

/** Whether a new opted-in pod is injected. The doctor creates such a pod as a dry run. */
export function checkAdmission(facts: ClusterFacts): Finding[] {
  if (isInstalled(facts) === false) return [];
  const { dryRun } = facts.admission;
  const subject = "new pods";
  if (!dryRun.known) {
    const permission = describePermission({ verb: "create", resource: "pods", namespace: facts.probeNamespace });
    return [
      unknown(
        subject,
        dryRun.reason.code,
        dryRun.reason.text,
        `run with the permission to ${permission}, or set another --probe-namespace`,
      ),
    ];
  }
  const request = `the dry run of an opted-in pod in namespace ${facts.probeNamespace}`;
  switch (dryRun.value.outcome) {
    case "injected":
      return [ok(subject, "webhook-answers", `${request} was injected`)];
    case "untouched":
      return [broken(subject, "webhook-silent", `${request} was admitted but not injected`, ...silenceCures(facts))];
    case "blocked":
      return [
        broken(
          subject,
          "webhook-blocks",
          `${request} was rejected: ${dryRun.value.text}`,
          "set failurePolicy to Ignore; then check the webhook's pods",
        ),
      ];
    case "refused":
      return [
        unknown(
          subject,
          "dry-run-refused",
          `${request} was rejected: ${dryRun.value.text}`,
          "set another --probe-namespace",
        ),
      ];
  }
}

function silenceCures(facts: ClusterFacts): string[] {
  const { install, probeNamespace } = facts;
  if (rulesOf(facts).excluded.has(probeNamespace))
    return [`namespace ${probeNamespace} is excluded: set another --probe-namespace`];
  const webhook = install.deployments.known
    ? install.deployments.value.find(({ name }) => ["switchback-webhook", SMALL_DEPLOYMENT].includes(name))
    : undefined;
  if (webhook?.ready === 0) return [`no webhook pod is ready: check the Deployment ${webhook.name}`];
  return [
    "check the findings about the webhook configuration, and the webhook's log",
    "check that nothing between the API server and the webhook's pods blocks port 8443 (firewalls of managed " +
      "control planes, NetworkPolicies)",
  ];
}
