import assert from "node:assert/strict";
import { before, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { Cluster } from "../cluster/cluster.ts";
import { admissionCounts, clientRevision, createPods } from "./concurrent-pods.ts";
import { optIn } from "./opted-in.ts";
import type { Condition } from "./shop.ts";
import { prepared } from "./stand-in.ts";
import { installSwitchback, SYSTEM, secretData } from "./switchback.ts";

// Switches the serving certificate to the cluster's cert-manager and back while pods are created.

export const needs = ["ipv4", "cert-manager"];

const NAME = "switchback-webhook";
const SETTLE_MS = 5_000;

let cluster: Cluster;

before(async () => {
  cluster = await prepared();
  await optIn(cluster);
});

async function whilePodsAreMade(work: () => Promise<void>): Promise<void> {
  const countsBefore = await admissionCounts(cluster);
  const finished = { done: false };
  const pods = createPods(cluster, finished);
  try {
    await work();
    await delay(SETTLE_MS);
  } finally {
    finished.done = true;
  }
  assert.deepEqual(new Set(await pods), new Set([await clientRevision(cluster)]), "every pod carries the revision");
  assert.deepEqual(await admissionCounts(cluster), countsBefore, "no webhook call failed open or was rejected");
}

function decoded(base64: string | undefined): string {
  return Buffer.from(base64 ?? "", "base64").toString();
}

/** The caBundle of each entry, in base64. */
async function bundles(): Promise<(string | undefined)[]> {
  const { webhooks } = await cluster.get<{ webhooks: { clientConfig: { caBundle?: string } }[] }>(
    ...["mutatingwebhookconfiguration", NAME],
  );
  return webhooks.map(({ clientConfig }) => clientConfig.caBundle);
}

/**
 * Waits until cert-manager has issued the certificate and the API server has its CA. cert-manager's injector (from
 * 1.19) keeps the CAs that were there.
 */
async function inForce(): Promise<void> {
  await cluster.until("cert-manager's CA is in the caBundle", 90, async () => {
    const { status } = await cluster.get<{ status?: { conditions?: Condition[] } }>("-n", SYSTEM, "certificate", NAME);
    const isReady = status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True");
    const secret = await secretData(cluster, "serving");
    const ca = decoded(secret["ca.crt"]);
    return (isReady && (await bundles()).every((bundle) => decoded(bundle).includes(ca))) || undefined;
  });
}

test("the certificate changes from the controller's own to cert-manager's", async () => {
  await whilePodsAreMade(async () => {
    await installSwitchback(cluster, { config: { certs: { mode: "cert-manager" } } });
    await inForce();
  });
});

test("cert-manager renews the certificate", async () => {
  await whilePodsAreMade(async () => {
    const { "tls.crt": old } = await secretData(cluster, "serving");
    // `cmctl renew` does the same.
    const condition = { type: "Issuing", status: "True", reason: "ManuallyTriggered", message: "renewed by a test" };
    const status = { conditions: [{ ...condition, lastTransitionTime: new Date().toISOString() }] };
    const patch = ["--subresource=status", "--type=merge", "-p", JSON.stringify({ status })];
    await cluster.kubectl("-n", SYSTEM, "patch", "certificate", NAME, ...patch);
    await cluster.until(
      "another certificate",
      60,
      async () => (await secretData(cluster, "serving"))["tls.crt"] !== old || undefined,
    );
    await inForce();
  });
});

/**
 * Waits until the certificate is the controller's and the API server trusts only its CA, so that both overlaps are
 * over.
 */
async function ownAgain(theirs: string): Promise<void> {
  await cluster.until("the controller's certificate, and its CA alone in the caBundle", 90, async () => {
    const { "tls.crt": leaf } = await secretData(cluster, "serving");
    const { "ca.crt": ca } = await secretData(cluster, "ca");
    return (leaf !== theirs && (await bundles()).every((bundle) => bundle === ca)) || undefined;
  });
}

// cert-manager's CA must stay trusted until every replica serves our own certificate.
test("the certificate changes back to the controller's own", async () => {
  const { "tls.crt": theirs = "" } = await secretData(cluster, "serving");
  await whilePodsAreMade(async () => {
    await installSwitchback(cluster, { config: { certs: { overlapSeconds: 5 } } });
    await ownAgain(theirs);
  });
});
