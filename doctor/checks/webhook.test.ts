import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createTestCa } from "#test/cluster/pki.ts";
import { admission, entries, install, rowsOf } from "#test/fakes/doctor-changes.ts";
import { CONFIG, entry, FORBIDDEN, HEALTHY, NOT_INSTALLED, OTHER_CA, reachable } from "#test/fakes/doctor-facts.ts";
import { OBJECTS } from "#test/published.ts";
import { known } from "../fact.ts";
import type { ClusterFacts } from "../facts.ts";

const authority = createTestCa("own");
const leaf = authority.serving(["w.test"]).cert;
const certified = (caBundle: string, servingCertificate: string | undefined) =>
  admission({
    configuration: known([entry("namespace", { caBundle }), entry("pod", { caBundle }), reachable({ caBundle })]),
    servingCertificate: known(servingCertificate),
  });

/** A change to the facts of a healthy installation, and all findings of the check after it. */
const CASES: readonly [what: string, change: Partial<ClusterFacts>, findings: string[]][] = [
  [
    "it does not",
    {},
    [
      "ok webhook-whole | MutatingWebhookConfiguration switchback-webhook | every entry for pods fails open, " +
        "and its caBundle matches the serving certificate",
    ],
  ],
  ["Switchback is not installed", NOT_INSTALLED, []],
  [
    "it cannot be read",
    admission({ configuration: FORBIDDEN }),
    ["unknown right-missing | MutatingWebhookConfiguration switchback-webhook | missing permission: get that"],
  ],
  [
    "it does not exist",
    admission({ configuration: known(undefined) }),
    [
      "broken webhook-missing | MutatingWebhookConfiguration switchback-webhook | it does not exist: " +
        "no pod is injected | reapply the chart",
    ],
  ],
  [
    "one entry is missing",
    entries(["pod"]),
    [
      "broken webhook-entry-missing | MutatingWebhookConfiguration switchback-webhook | it has no entry " +
        "namespace.switchback.dev | reapply the chart",
    ],
  ],
  [
    "the entry of the namespaces that opt in by name is missing",
    install({ config: known({ ...CONFIG, optIn: { namespaces: ["shop"] } }) }),
    [
      "broken webhook-entry-missing | MutatingWebhookConfiguration switchback-webhook | it has no entry " +
        "listed.switchback.dev | reapply the chart",
    ],
  ],
  [
    "both entries are missing",
    entries(["other"]),
    [
      "broken webhook-entry-missing | MutatingWebhookConfiguration switchback-webhook | it has no entry " +
        "namespace.switchback.dev | reapply the chart",
      "broken webhook-entry-missing | MutatingWebhookConfiguration switchback-webhook | it has no entry " +
        "pod.switchback.dev | reapply the chart",
    ],
  ],
  [
    "it fails closed",
    entries(["namespace"], ["pod", { failurePolicy: "Fail" }]),
    [
      "broken webhook-fails-closed | MutatingWebhookConfiguration switchback-webhook | failurePolicy of " +
        "pod.switchback.dev is Fail: without the webhook, opted-in pods cannot be created | set failurePolicy " +
        "to Ignore, or reapply the chart",
    ],
  ],
  [
    "its timeout is just short enough",
    entries(["namespace", { timeoutSeconds: 5 }], ["pod"]),
    [
      "ok webhook-whole | MutatingWebhookConfiguration switchback-webhook | every entry for pods fails open, " +
        "and its caBundle matches the serving certificate",
    ],
  ],
  [
    "its timeout is long",
    entries(["namespace", { timeoutSeconds: 6 }], ["pod"]),
    [
      "warning webhook-timeout-long | MutatingWebhookConfiguration switchback-webhook | timeoutSeconds of " +
        "namespace.switchback.dev is 6: an unresponsive webhook delays each pod by that | set timeoutSeconds " +
        "to 2",
    ],
  ],
  [
    "everything about an entry",
    entries(["namespace", { failurePolicy: "Fail", timeoutSeconds: 30, caBundle: "" }], ["pod"]),
    [
      "broken webhook-fails-closed | MutatingWebhookConfiguration switchback-webhook | failurePolicy of " +
        "namespace.switchback.dev is Fail: without the webhook, opted-in pods cannot be created | set " +
        "failurePolicy to Ignore, or reapply the chart",
      "warning webhook-timeout-long | MutatingWebhookConfiguration switchback-webhook | timeoutSeconds of " +
        "namespace.switchback.dev is 30: an unresponsive webhook delays each pod by that | set timeoutSeconds " +
        "to 2",
      "broken ca-bundle-empty | MutatingWebhookConfiguration switchback-webhook | namespace.switchback.dev " +
        "has no caBundle: every call to it fails | check that a controller is the leader (it maintains " +
        "caBundle), or that cert-manager's cainjector runs; else reapply the chart",
    ],
  ],
  [
    "a caBundle is broken",
    entries(["namespace", { caBundle: "nonsense" }], ["pod"]),
    [
      "broken ca-bundle-broken | MutatingWebhookConfiguration switchback-webhook | the caBundle of " +
        "namespace.switchback.dev has no valid certificate | check that a controller is the leader (it " +
        "maintains caBundle), or that cert-manager's cainjector runs; else reapply the chart",
    ],
  ],
  [
    "the certificate is of another CA",
    certified(OTHER_CA, leaf),
    [
      "broken ca-bundle-mismatch | MutatingWebhookConfiguration switchback-webhook | the caBundle of " +
        `namespace.switchback.dev has no CA of the certificate in Secret ${OBJECTS.serving} | check that a ` +
        "controller is the leader (it maintains caBundle), or that cert-manager's cainjector runs; " +
        "else reapply the chart",
      "broken ca-bundle-mismatch | MutatingWebhookConfiguration switchback-webhook | the caBundle of " +
        `pod.switchback.dev has no CA of the certificate in Secret ${OBJECTS.serving} | check that a ` +
        "controller is the leader (it maintains caBundle), or that cert-manager's cainjector runs; " +
        "else reapply the chart",
      "broken ca-bundle-mismatch | MutatingWebhookConfiguration switchback-webhook | the caBundle of " +
        `reachable.switchback.dev has no CA of the certificate in Secret ${OBJECTS.serving} | check that a ` +
        "controller is the leader (it maintains caBundle), or that cert-manager's cainjector runs; " +
        "else reapply the chart",
    ],
  ],
  [
    "the controller's own entry is missing",
    admission({ configuration: known([entry("namespace"), entry("pod")]) }),
    [
      "broken webhook-entry-missing | MutatingWebhookConfiguration switchback-webhook | it has no entry " +
        "reachable.switchback.dev | reapply the chart",
    ],
  ],
  [
    "the certificate is of one CA of two",
    certified(OTHER_CA + authority.cert, leaf),
    [
      "ok webhook-whole | MutatingWebhookConfiguration switchback-webhook | every entry for pods fails open, " +
        "and its caBundle matches the serving certificate",
    ],
  ],
  [
    "the caBundle is the certificate itself",
    certified(leaf, leaf),
    [
      "ok webhook-whole | MutatingWebhookConfiguration switchback-webhook | every entry for pods fails open, " +
        "and its caBundle matches the serving certificate",
    ],
  ],
  [
    "the caBundle is another certificate that is no CA",
    certified(authority.serving(["x.test"]).cert, leaf),
    [
      "broken ca-bundle-mismatch | MutatingWebhookConfiguration switchback-webhook | the caBundle of " +
        `namespace.switchback.dev has no CA of the certificate in Secret ${OBJECTS.serving} | check that a ` +
        "controller is the leader (it maintains caBundle), or that cert-manager's cainjector runs; " +
        "else reapply the chart",
      "broken ca-bundle-mismatch | MutatingWebhookConfiguration switchback-webhook | the caBundle of " +
        `pod.switchback.dev has no CA of the certificate in Secret ${OBJECTS.serving} | check that a ` +
        "controller is the leader (it maintains caBundle), or that cert-manager's cainjector runs; " +
        "else reapply the chart",
      "broken ca-bundle-mismatch | MutatingWebhookConfiguration switchback-webhook | the caBundle of " +
        `reachable.switchback.dev has no CA of the certificate in Secret ${OBJECTS.serving} | check that a ` +
        "controller is the leader (it maintains caBundle), or that cert-manager's cainjector runs; " +
        "else reapply the chart",
    ],
  ],
  [
    "the certificate is broken",
    admission({ servingCertificate: known("nonsense") }),
    [
      "broken serving-certificate-broken | MutatingWebhookConfiguration switchback-webhook | tls.crt in " +
        `Secret ${OBJECTS.serving} is not a valid certificate | delete Secret ${OBJECTS.serving}: ` +
        "the controller issues a new certificate",
    ],
  ],
  [
    "the certificate is empty",
    admission({ servingCertificate: known("") }),
    [
      "broken serving-certificate-broken | MutatingWebhookConfiguration switchback-webhook | tls.crt in " +
        `Secret ${OBJECTS.serving} is not a valid certificate | delete Secret ${OBJECTS.serving}: ` +
        "the controller issues a new certificate",
    ],
  ],
  [
    "there is no certificate",
    certified(authority.cert, undefined),
    [
      "ok webhook-whole | MutatingWebhookConfiguration switchback-webhook | every entry for pods fails open and has " +
        "a CA; the dry run shows whether it matches the serving certificate",
    ],
  ],
  [
    "the certificate cannot be read",
    admission({ servingCertificate: FORBIDDEN }),
    [
      "ok webhook-whole | MutatingWebhookConfiguration switchback-webhook | every entry for pods fails open and has " +
        "a CA; the dry run shows whether it matches the serving certificate",
    ],
  ],
  [
    "the certificate cannot be read, and the caBundle is no CA",
    admission({
      configuration: known([entry("namespace"), entry("pod"), reachable()].map((one) => ({ ...one, caBundle: leaf }))),
      servingCertificate: FORBIDDEN,
    }),
    [
      "ok webhook-whole | MutatingWebhookConfiguration switchback-webhook | every entry for pods fails open and has " +
        "a CA; the dry run shows whether it matches the serving certificate",
    ],
  ],
];

describe("the webhook check says how the webhook configuration differs from the chart's:", () => {
  for (const [what, change, findings] of CASES) {
    test(what, () => assert.deepEqual(rowsOf("webhook", { ...HEALTHY, ...change }), findings));
  }
});
