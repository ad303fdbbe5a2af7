import type { ClusterFacts } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { describeRight } from "../known.ts";
import { isInstalled } from "./install.ts";

const { ok, broken, unknown } = findingsOf("admission");

/** Whether a pod that opts in would be injected now: the API server was asked to create one, and not to keep it. */
export function checkAdmission(facts: ClusterFacts): Finding[] {
  if (isInstalled(facts) === false) return [];
  const { dryRun } = facts.admission;
  const subject = "new pods";
  if (!dryRun.known) {
    const right = describeRight({ verb: "create", resource: "pods", namespace: facts.probeNamespace });
    return [
      unknown(
        subject,
        dryRun.reason.code,
        dryRun.reason.text,
        `ask as somebody who may ${right}, or elsewhere with --probe-namespace`,
      ),
    ];
  }
  const asked = `a pod with the opt-in label was created in ${facts.probeNamespace} as a dry run`;
  switch (dryRun.value.outcome) {
    case "injected":
      return [ok(subject, "webhook-answers", `${asked}, and came back injected`)];
    case "untouched":
      return [broken(subject, "webhook-silent", `${asked}, and came back as it was`, ...silenceCures(facts))];
    case "blocked":
      return [
        broken(
          subject,
          "webhook-blocks",
          `${asked}, and refused: ${dryRun.value.text}`,
          "set failurePolicy to Ignore; then see the webhook's pods",
        ),
      ];
    case "refused":
      return [
        unknown(
          subject,
          "dry-run-refused",
          `${asked}, and refused: ${dryRun.value.text}`,
          "choose another namespace with --probe-namespace",
        ),
      ];
  }
}

function silenceCures({ admission, install, probeNamespace }: ClusterFacts): string[] {
  const entries = admission.configuration.known ? admission.configuration.value : [];
  const excluded = entries?.some(({ excludedNamespaces }) => excludedNamespaces.includes(probeNamespace));
  if (excluded) return [`${probeNamespace} is excluded: choose another namespace with --probe-namespace`];
  const webhook = install.deployments.known
    ? install.deployments.value.find(({ name }) => name === "switchback-webhook")
    : undefined;
  if (webhook?.ready === 0) return ["no pod of the webhook is ready: see the Deployment switchback-webhook"];
  return [
    "see the findings about the webhook's configuration, and the webhook's log",
    "see that nothing between the API server and the webhook's pods drops port 8443 (firewalls of managed control planes, NetworkPolicies)",
  ];
}
