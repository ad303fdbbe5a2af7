import { X509Certificate } from "node:crypto";
import { TLS_SECRET, WEBHOOK_CONFIGURATION } from "#certs/objects.ts";
import { isSignedBy, parseCertificates, readableAuthorities } from "#certs/pem.ts";
import type { Fact } from "../fact.ts";
import type { ClusterFacts, WebhookEntry } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { isInstalled } from "../is-installed.ts";
import { REACHABLE_ENTRY } from "../opt-in-rules.ts";

const { ok, warning, broken, unknown } = findingsOf("webhook");

const SUBJECT = `MutatingWebhookConfiguration ${WEBHOOK_CONFIGURATION}`;
/**
 * The chart's entries: for pods that their namespace's label opts in, for pods that their own label opts in, and for
 * the controller's test.
 */
const ENTRIES: readonly string[] = ["namespace.switchback.dev", "pod.switchback.dev", REACHABLE_ENTRY];
/** The entry for namespaces that opt in by name. The chart creates it only if there are such namespaces. */
const LISTED_ENTRY = "listed.switchback.dev";
/** An unresponsive webhook delays each pod's creation by the timeout. The chart sets 2 s. */
const LONG_TIMEOUT_SECONDS = 5;
const APPLY_CHART = "reapply the chart";

/** Whether the webhook configuration is correct: it fails open, and its CA matches the serving certificate. */
export function checkWebhook(facts: ClusterFacts): Finding[] {
  if (isInstalled(facts) === false) return [];
  const { configuration, servingCertificate } = facts.admission;
  if (!configuration.known) return [unknown(SUBJECT, configuration.reason.code, configuration.reason.text)];
  if (configuration.value === undefined) {
    return [broken(SUBJECT, "webhook-missing", "it does not exist: no pod is injected", APPLY_CHART)];
  }
  const entries = configuration.value;
  const { config } = facts.install;
  const isListing = config.known && (config.value?.optIn.namespaces.length ?? 0) > 0;
  const missing = [...ENTRIES, ...(isListing ? [LISTED_ENTRY] : [])].filter(
    (name) => !entries.some((entry) => entry.name === name),
  );
  const found = [
    ...missing.map((name) => broken(SUBJECT, "webhook-entry-missing", `it has no entry ${name}`, APPLY_CHART)),
    ...entries.flatMap((entry) => [...checkEntry(entry), ...checkCaBundle(entry, servingCertificate)]),
  ];
  // A problem with the serving certificate is the same for each entry.
  const once = [...new Map(found.map((finding) => [finding.evidence, finding])).values()];
  return once.length > 0 ? once : [ok(SUBJECT, "webhook-whole", okText(servingCertificate))];
}

function okText(certificate: Fact<string | undefined>): string {
  const open = "every entry for pods fails open";
  return certificate.known && certificate.value !== undefined
    ? `${open}, and its caBundle matches the serving certificate`
    : `${open} and has a CA; the dry run shows whether it matches the serving certificate`;
}

function checkEntry(entry: WebhookEntry): Finding[] {
  const findings: Finding[] = [];
  if (entry.failurePolicy !== "Ignore" && entry.name !== REACHABLE_ENTRY) {
    const evidence =
      `failurePolicy of ${entry.name} is ${entry.failurePolicy}: without the webhook, ` +
      "opted-in pods cannot be created";
    findings.push(
      broken(SUBJECT, "webhook-fails-closed", evidence, "set failurePolicy to Ignore, or reapply the chart"),
    );
  }
  if (entry.timeoutSeconds > LONG_TIMEOUT_SECONDS) {
    const evidence =
      `timeoutSeconds of ${entry.name} is ${entry.timeoutSeconds}: ` +
      "an unresponsive webhook delays each pod by that";
    findings.push(warning(SUBJECT, "webhook-timeout-long", evidence, "set timeoutSeconds to 2"));
  }
  return findings;
}

function checkCaBundle({ name, caBundle }: WebhookEntry, certificate: Fact<string | undefined>): Finding[] {
  const cure =
    "check that a controller is the leader (it maintains caBundle), or that cert-manager's cainjector runs; " +
    "else reapply the chart";
  if (caBundle === "")
    return [broken(SUBJECT, "ca-bundle-empty", `${name} has no caBundle: every call to it fails`, cure)];
  const authorities = readableAuthorities(caBundle);
  // A self-signed certificate that is not a CA works too (certs.mode files).
  if (authorities.length === 0 && !holdsCertificate(caBundle)) {
    return [broken(SUBJECT, "ca-bundle-broken", `the caBundle of ${name} has no valid certificate`, cure)];
  }
  if (!certificate.known || certificate.value === undefined) return [];
  try {
    const [leaf] = parseCertificates(certificate.value);
    const matches =
      leaf !== undefined && (caBundle.includes(leaf.pem.trim()) || authorities.some((ca) => isSignedBy(leaf, ca)));
    if (matches) return [];
    const evidence = `the caBundle of ${name} has no CA of the certificate in Secret ${TLS_SECRET}`;
    return [broken(SUBJECT, "ca-bundle-mismatch", evidence, cure)];
  } catch {
    const evidence = `tls.crt in Secret ${TLS_SECRET} is not a valid certificate`;
    return [
      broken(
        SUBJECT,
        "serving-certificate-broken",
        evidence,
        `delete Secret ${TLS_SECRET}: the controller issues a new certificate`,
      ),
    ];
  }
}

function holdsCertificate(text: string): boolean {
  try {
    return new X509Certificate(text).subject !== undefined;
  } catch {
    return false;
  }
}
