import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { parseCertificates } from "#certs/pem.ts";
import { REVISION_KEY } from "#hostmap/metadata-keys.ts";
import { createSelector } from "#hostmap/pod-selection.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { ingress, mapped, namespaceYaml } from "./objects.ts";
import { type Created, refused, streamPods } from "./pod-stream.ts";
import { type System, startSystem, sumOf, until } from "./system.ts";

// A rotation that is due by age: its only trigger is a CA that lives for a minute, of which two thirds pass. (To
// rotate by hand, delete the Secret with the CA: `healing.test.ts` tests it.)

const PODS = 1_000;
const CA_SECONDS = 60;
const ROTATION_DEADLINE_MS = 150_000;
const MAX_NAMES = 500;
const FIRST = ["api.example.com", "shop.example.com"];
const LATE = "late.example.com";

let system: System;
before(async () => {
  const days = CA_SECONDS / 86_400;
  system = await startSystem({
    webhooks: 2,
    values: { config: { certs: { caDays: days, leafDays: days, overlapSeconds: 2 }, inject: { maxNames: MAX_NAMES } } },
  });
  await system.apply(`${ingress("shop", FIRST)}${namespaceYaml("labelled", "enabled")}`);
  await system.ready(FIRST);
});
after(() => system?.stop());

/** The API server's counters of its calls of the webhook. */
async function counters() {
  const metrics = await system.cluster.metrics();
  const requests = (labels?: string[]) => sumOf(metrics, "apiserver_admission_webhook_request_total", labels);
  return {
    failedOpen: sumOf(metrics, "apiserver_admission_webhook_fail_open_count"),
    rejected: sumOf(metrics, "apiserver_admission_webhook_rejection_count"),
    answered: requests(['code="200"', 'rejected="false"', 'name="namespace.switchback.dev"']),
    otherwise: requests() - requests(['code="200"', 'rejected="false"']),
  };
}

/** The annotation that a pod which chooses no names must have, computed from the published map. */
async function currentRevision(): Promise<string> {
  const map = publishedMapOf("", await system.published());
  return createSelector(map, MAX_NAMES)(undefined).revision;
}

async function trusted(): Promise<string[]> {
  const bundles = new Set(await system.bundles());
  assert.equal(bundles.size, 1, "both entries trust the same");
  const [bundle = ""] = bundles;
  return parseCertificates(Buffer.from(bundle, "base64").toString()).map(({ id }) => id);
}

const revisionOf = ({ pod }: Created) => pod.metadata.annotations?.[REVISION_KEY];

it("a CA is rotated and the map changes during 1,000 pod creations: every pod has the current revision", async () => {
  const [atFirst, oldRevision] = [await counters(), await currentRevision()];
  const [oldCa] = await trusted();
  assert.ok(oldCa);
  const stream = streamPods(system, { namespace: "labelled", concurrency: 8, pauseMs: 100, real: true });
  await until(`${PODS / 4} pods`, () => stream.created.length >= PODS / 4, 60_000);
  const changedAt = performance.now();
  await system.apply(ingress("late", [LATE]));
  await system.ready([...FIRST, LATE]);
  const readyAt = performance.now();
  const newRevision = await currentRevision();
  assert.notEqual(newRevision, oldRevision);

  const leader = await system.leader();
  let overlapped = false;
  const rotated = async () => {
    const now = await trusted();
    overlapped ||= now.length > 1;
    return !now.includes(oldCa) && (await leader.status()).certificates?.state.code === "steady";
  };
  await until("a whole rotation", rotated, ROTATION_DEADLINE_MS);
  const rotatedAt = performance.now();
  await until("pods of the new CA", () => stream.created.some(({ sentAt }) => sentAt > rotatedAt));
  await until(`${PODS} pods`, () => stream.created.length >= PODS, 120_000);
  const created = await stream.stop();

  assert.ok(overlapped, "the old CA and the new one were trusted together");
  assert.deepEqual(refused(created), []);
  for (const pod of created) {
    const expected = [];
    if (pod.sentAt < readyAt) expected.push(oldRevision);
    if (pod.answeredAt > changedAt) expected.push(newRevision);
    assert.ok(
      expected.includes(revisionOf(pod) ?? ""),
      `${pod.name}: ${revisionOf(pod)} is not ${expected.join(" or ")}`,
    );
    const names = revisionOf(pod) === newRevision ? [...FIRST, LATE] : FIRST;
    assert.deepEqual(mapped(pod.pod), names.toSorted(), pod.name);
  }
  const atLast = await counters();
  assert.equal(atLast.failedOpen, atFirst.failedOpen, "no call failed");
  assert.equal(atLast.rejected, atFirst.rejected);
  assert.equal(atLast.otherwise, atFirst.otherwise, "every call was answered with 200");
  assert.equal(atLast.answered - atFirst.answered, created.length, "one call a pod");
  for (const webhook of system.webhooks) {
    const metrics = (await webhook.page("/metrics")).text;
    assert.ok(sumOf(metrics, "switchback_webhook_admissions_total") > 0, "both replicas were called");
  }
});
