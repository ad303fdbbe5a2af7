import { X509Certificate } from "node:crypto";
import { WEBHOOK_CONFIGURATION } from "../../certs/cabundle.ts";
import { isSignedBy, parseCertificates, readableAuthorities } from "../../certs/pem.ts";
import { TLS_SECRET } from "../../certs/store.ts";
import type { ClusterFacts, WebhookEntry } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import type { Known } from "../known.ts";
import { isInstalled } from "./install.ts";

const { ok, warning, broken, unknown } = findingsOf("webhook");

const SUBJECT = `MutatingWebhookConfiguration ${WEBHOOK_CONFIGURATION}`;
/** The chart's entries: pods that their namespace opted in, and pods that opted in themselves. */
const ENTRIES: readonly string[] = ["namespace.switchback.dev", "pod.switchback.dev"];
/** A webhook that is away delays each pod by this much. The chart's is 2 s. */
const LONG_TIMEOUT_SECONDS = 5;
const APPLY_CHART = "apply the chart again";

/** Whether the API server calls our webhook as the chart means it: open when it fails, and with a CA that fits. */
export function checkWebhook(facts: ClusterFacts): Finding[] {
  if (isInstalled(facts) === false) return [];
  const { configuration, servingCertificate } = facts.admission;
  if (!configuration.known) return [unknown(SUBJECT, configuration.reason.code, configuration.reason.text)];
  if (configuration.value === undefined) {
    return [broken(SUBJECT, "webhook-missing", "it is not there: no pod is injected", APPLY_CHART)];
  }
  const entries = configuration.value;
  const missing = ENTRIES.filter((name) => !entries.some((entry) => entry.name === name)).map((name) =>
    broken(SUBJECT, "webhook-entry-missing", `it has no entry ${name}`, APPLY_CHART),
  );
  const found = [
    ...missing,
    ...entries.flatMap((entry) => [...judgeEntry(entry), ...judgeBundle(entry, servingCertificate)]),
  ];
  return found.length > 0 ? found : [ok(SUBJECT, "webhook-whole", wholeText(servingCertificate))];
}

function wholeText(certificate: Known<string | undefined>): string {
  const open = "every entry fails open";
  return certificate.known && certificate.value !== undefined
    ? `${open}, and its caBundle fits the serving certificate`
    : `${open} and has a CA; that it fits is told by whether the webhook answers`;
}

function judgeEntry(entry: WebhookEntry): Finding[] {
  const findings: Finding[] = [];
  if (entry.failurePolicy !== "Ignore") {
    const evidence = `failurePolicy of ${entry.name} is ${entry.failurePolicy}: without the webhook, opted-in pods cannot be created`;
    findings.push(
      broken(SUBJECT, "webhook-fails-closed", evidence, "set failurePolicy to Ignore, or apply the chart again"),
    );
  }
  if (entry.timeoutSeconds > LONG_TIMEOUT_SECONDS) {
    const evidence = `timeoutSeconds of ${entry.name} is ${entry.timeoutSeconds}: a webhook that hangs delays each pod by it`;
    findings.push(warning(SUBJECT, "webhook-timeout-long", evidence, "set timeoutSeconds to 2"));
  }
  return findings;
}

function judgeBundle({ name, caBundle }: WebhookEntry, certificate: Known<string | undefined>): Finding[] {
  const cure =
    "see that a controller leads (it keeps caBundle), or that cert-manager's cainjector runs; else apply the chart again";
  if (caBundle === "")
    return [broken(SUBJECT, "ca-bundle-empty", `${name} has no caBundle: no call of it succeeds`, cure)];
  const authorities = readableAuthorities(caBundle);
  // A certificate that signed itself and is no CA verifies as well (certs.mode files).
  if (authorities.length === 0 && !holdsCertificate(caBundle)) {
    return [broken(SUBJECT, "ca-bundle-broken", `no certificate in the caBundle of ${name} can be read`, cure)];
  }
  if (!certificate.known || certificate.value === undefined) return [];
  try {
    const [leaf] = parseCertificates(certificate.value);
    const fits =
      leaf !== undefined && (caBundle.includes(leaf.pem.trim()) || authorities.some((ca) => isSignedBy(leaf, ca)));
    if (fits) return [];
    const evidence = `the caBundle of ${name} has no CA of the certificate in the Secret ${TLS_SECRET}`;
    return [broken(SUBJECT, "ca-bundle-mismatch", evidence, cure)];
  } catch {
    const evidence = `tls.crt in the Secret ${TLS_SECRET} cannot be read`;
    return [
      broken(
        SUBJECT,
        "serving-certificate-broken",
        evidence,
        `delete the Secret ${TLS_SECRET}: the controller issues it anew`,
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
