import { WEBHOOK_CONFIGURATION } from "#certs/objects.ts";
import type { ClusterFacts } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { isInstalled } from "../is-installed.ts";

const { broken, unknown } = findingsOf("webhook");

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
  if (isInstalled(facts) === false) return [];
  const { configuration } = facts.admission;
  if (!configuration.known) return [unknown(SUBJECT, configuration.reason.code, configuration.reason.text)];
  const entries = configuration.value ?? [];
  const missing = ENTRIES.filter((name) => !entries.some((entry) => entry.name === name));
  if (missing.length > 0) {
    const what = configuration.value === undefined ? "it does not exist" : `it has no entry ${missing.join(", ")}`;
    return [broken(SUBJECT, "webhook-missing", `${what}: pods are not injected`, "reapply the chart")];
  }
  const closed = entries.filter(({ name, failurePolicy }) => failurePolicy !== "Ignore" && name !== REACHABLE_ENTRY);
  if (closed.length === 0) return [];
  const names = closed.map(({ name }) => name).join(", ");
  const evidence = `${names} fails closed: without the webhook, opted-in pods cannot be created`;
  return [broken(SUBJECT, "webhook-fails-closed", evidence, "set failurePolicy to Ignore, or reapply the chart")];
}
