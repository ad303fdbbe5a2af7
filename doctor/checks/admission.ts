import { WEBHOOK_CONFIGURATION } from "#certs/objects.ts";
import { describePermission } from "../fact.ts";
import type { ClusterFacts } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { SMALL_DEPLOYMENT } from "./deployments.ts";
import { rulesOf } from "./opt-in.ts";

const { ok, broken, unknown } = findingsOf("admission");

/** Whether a new opted-in pod is injected. The doctor creates such a pod as a dry run. */
export function checkAdmission(facts: ClusterFacts): Finding[] {
  const { dryRun } = facts.admission;
  const subject = "new pods";
  if (!dryRun.known) {
    const permission = describePermission({ verb: "create", resource: "pods", namespace: facts.probeNamespace });
    const cure = `run with the permission to ${permission}, or set another --probe-namespace`;
    return [unknown(subject, dryRun.reason.code, dryRun.reason.text, cure)];
  }
  const request = `the dry run of an opted-in pod in namespace ${facts.probeNamespace}`;
  const { value } = dryRun;
  if (value.outcome === "injected") return [ok(subject, "webhook-answers", `${request} was injected`)];
  if (value.outcome === "untouched")
    return [broken(subject, "webhook-silent", `${request} was admitted but not injected`, ...silenceCures(facts))];
  const rejected = `${request} was rejected: ${value.text}`;
  if (value.outcome === "refused")
    return [unknown(subject, "dry-run-refused", rejected, "set another --probe-namespace")];
  return [broken(subject, "webhook-blocks", rejected, "set failurePolicy to Ignore; then check the webhook's pods")];
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

const fromWebhook = findingsOf("webhook");
/**
 * The one entry that is not about pods. The controller uses it to test whether the API server can call the webhook.
 * It matches nothing else and fails closed.
 */
const REACHABLE_ENTRY = "reachable.switchback.dev";
const SUBJECT = `MutatingWebhookConfiguration ${WEBHOOK_CONFIGURATION}`;
/** The chart's entries: for pods that their namespace's label opts in, and for pods that their own label opts in. */
const ENTRIES: readonly string[] = ["namespace.switchback.dev", "pod.switchback.dev"];

/**
 * Whether the webhook configuration has its entries, and fails open. The controller maintains the CA of each entry; the
 * dry run shows whether the API server accepts it.
 */
export function checkWebhook(facts: ClusterFacts): Finding[] {
  const { configuration } = facts.admission;
  if (!configuration.known) return [fromWebhook.unknown(SUBJECT, configuration.reason.code, configuration.reason.text)];
  const entries = configuration.value ?? [];
  const missing = ENTRIES.filter((name) => !entries.some((entry) => entry.name === name));
  if (missing.length > 0) {
    const what = configuration.value === undefined ? "it does not exist" : `it has no entry ${missing.join(", ")}`;
    return [fromWebhook.broken(SUBJECT, "webhook-missing", `${what}: pods are not injected`, "reapply the chart")];
  }
  const closed = entries.filter(({ name, failurePolicy }) => failurePolicy !== "Ignore" && name !== REACHABLE_ENTRY);
  if (closed.length === 0) return [];
  const names = closed.map(({ name }) => name).join(", ");
  const evidence = `${names} fails closed: without the webhook, opted-in pods cannot be created`;
  return [
    fromWebhook.broken(SUBJECT, "webhook-fails-closed", evidence, "set failurePolicy to Ignore, or reapply the chart"),
  ];
}
