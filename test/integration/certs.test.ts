import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { after, before, describe, it } from "node:test";
import { issueAuthority, issueLeaf, servingNames } from "#certs/issue.ts";
import { type PemPair, parseCertificates } from "#certs/pem.ts";
import { REVISION_KEY } from "#hostmap/metadata-keys.ts";
import { createSelector } from "#hostmap/pod-selection.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { OBJECTS } from "../published.ts";
import { ingress, mapped, namespaceYaml } from "./objects.ts";
import { type Created, refused, streamPods } from "./pod-stream.ts";
import { NAMESPACE, type System, startSystem, sumOf, until } from "./system.ts";

// What happens to certificates while pods are created all the time. The API server refuses a pod when it cannot call
// the webhook, so that no failed call goes unnoticed.

const PODS = 1_000;
/** A rotation by age is due when two thirds of this have passed, also during the other events. */
const CA_SECONDS = 60;
const ROTATION_DEADLINE_MS = 150_000;
const EVENT_DEADLINE_MS = 90_000;
/** Most seconds with a refused call over all events. */
const MOST_REFUSED_SECONDS = 2;
/** Number of calls after an event has settled, because a failure may come a moment later. */
const AFTERWARDS = 50;
const MAX_NAMES = 500;
const FIRST = ["api.example.com", "shop.example.com"];
const LATE = "late.example.com";
const NAMES = servingNames("switchback-webhook", NAMESPACE, "cluster.local");
const CONFIGURATION = ["mutatingwebhookconfiguration", "switchback-webhook"];

let system: System;
before(async () => {
  const days = CA_SECONDS / 86_400;
  system = await startSystem({
    webhooks: 2,
    values: {
      config: {
        controller: { leaseSeconds: 4 },
        certs: { caDays: days, leafDays: days, overlapSeconds: 2 },
        inject: { maxNames: MAX_NAMES },
      },
    },
  });
  await system.apply(
    `${ingress("shop", FIRST)}${namespaceYaml("labelled", "enabled")}${namespaceYaml("events", "enabled")}`,
  );
  await system.ready(FIRST);
  await patchEntries((at) => ({ op: "replace", path: `/webhooks/${at}/failurePolicy`, value: "Fail" }));
});
after(() => system?.stop());

interface Entry {
  readonly clientConfig: { readonly caBundle?: string };
}

interface Configuration {
  readonly metadata: { readonly managedFields?: readonly { readonly manager: string; readonly fieldsV1: object }[] };
  readonly webhooks: readonly Entry[];
}

const own = (...args: string[]) => system.kubectl("-n", NAMESPACE, ...args);
const configuration = (...flags: string[]) => system.json<Configuration>("get", ...CONFIGURATION, ...flags);

async function patchEntries(operation: (at: number, last: number) => object | undefined): Promise<void> {
  const { webhooks } = await configuration();
  const patch = webhooks.flatMap((_, at) => operation(at, webhooks.length - 1) ?? []);
  await system.kubectl("patch", ...CONFIGURATION, "--type=json", "-p", JSON.stringify(patch));
}

async function dataOf(secret: string): Promise<Record<string, string>> {
  return (await system.json<{ data: Record<string, string> }>("-n", NAMESPACE, "get", "secret", secret)).data;
}

const decoded = (base64 = "") => Buffer.from(base64, "base64").toString();
const encoded = (text: string) => Buffer.from(text).toString("base64");

async function trusted(): Promise<string[]> {
  const bundles = new Set(await system.bundles());
  assert.equal(bundles.size, 1, "all entries trust the same");
  return parseCertificates(decoded([...bundles][0])).map(({ id }) => id);
}

/** Whether the leader has nothing left to do, and every API server that reads the bundle now trusts the leaf. */
async function isWell(): Promise<boolean> {
  const { certificates } = await (await system.leader()).status();
  if (certificates?.state.code !== "steady") return false;
  const texts = Object.values(await dataOf(OBJECTS.ca)).map(decoded);
  const signers = texts.filter((text) => text.includes("BEGIN CERTIFICATE")).flatMap(parseCertificates);
  const leaf = new X509Certificate(decoded((await dataOf(OBJECTS.serving))["tls.crt"]));
  const ids = await trusted();
  return signers.some(({ id, x509 }) => ids.includes(id) && leaf.verify(x509.publicKey));
}

/** The annotation that a pod which chooses no names must have, computed from the published map. */
async function currentRevision(): Promise<string> {
  const map = publishedMapOf("", await system.published());
  return createSelector(map, MAX_NAMES)(undefined).revision;
}

const revisionOf = ({ pod }: Created) => pod.metadata.annotations?.[REVISION_KEY];

it("the controller owns caBundle and nothing else of the webhook configuration", async () => {
  const { metadata } = await configuration("--show-managed-fields");
  const ours = (metadata.managedFields ?? []).filter(({ manager }) => manager === "switchback-cabundle");
  const field = { "f:clientConfig": { "f:caBundle": {} } };
  const entries = ["namespace", "pod", "reachable"].map((name) => [`k:{"name":"${name}.switchback.dev"}`, field]);
  assert.deepEqual(
    ours.map(({ fieldsV1 }) => fieldsV1),
    [{ "f:webhooks": Object.fromEntries(entries) }],
  );
});

it("a CA is rotated and the map changes during 1,000 pod creations: every pod has the current revision", async () => {
  const calls = async () => sumOf(await system.cluster.metrics(), "apiserver_admission_webhook_request_total");
  const [callsBefore, oldRevision] = [await calls(), await currentRevision()];
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

  let overlapped = false;
  const rotated = async () => {
    const now = await trusted();
    overlapped ||= now.length > 1;
    return !now.includes(oldCa) && (await isWell());
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
  assert.equal((await calls()) - callsBefore, created.length, "one call a pod");
  for (const webhook of system.webhooks) {
    const metrics = (await webhook.page("/metrics")).text;
    assert.ok(sumOf(metrics, "switchback_webhook_admissions_total") > 0, "both replicas were called");
  }
});

/** Seconds in which a call was refused, in steps of a tenth. */
function refusedSeconds(created: readonly Created[]): number {
  const tenths = created.filter(({ status }) => status !== 201).map(({ sentAt }) => Math.floor(sentAt / 100));
  return new Set(tenths).size / 10;
}

/** Deletes the webhook configuration, and applies it again without its bundle. Nobody else creates it. */
async function reapplyConfiguration(): Promise<void> {
  const { metadata, webhooks, ...rest } = (await configuration()) as Configuration & { metadata: object };
  await system.kubectl("delete", ...CONFIGURATION);
  const leader = await system.leader();
  const code = async () => (await leader.status()).certificates?.state.code;
  await until("the leader to report it", async () => (await code()) === "bundle-unreadable");
  await own("delete", "secret", OBJECTS.serving);
  await until("another leaf", async () => (await dataOf(OBJECTS.serving))["tls.crt"] !== undefined);
  assert.equal(await system.kubectl("get", ...CONFIGURATION, "--ignore-not-found", "-o", "name"), "");
  const entries = webhooks.map(({ clientConfig: { caBundle: _, ...clientConfig }, ...entry }) => ({
    ...entry,
    clientConfig,
  }));
  const { name, labels } = metadata as Configuration["metadata"] & { name: string; labels: object };
  await system.apply(JSON.stringify({ ...rest, metadata: { name, labels }, webhooks: entries }));
}

// The events of certs/rules.property.test.ts, without the leader's clock and the API server's outage: in both, the API
// server calls as before, or not at all.
describe("the calls that the API server cannot make", () => {
  const setBundle = (base64: string, of = (_at: number, _last: number) => true) =>
    patchEntries((at, last) =>
      of(at, last) ? { op: "add", path: `/webhooks/${at}/clientConfig/caBundle`, value: base64 } : undefined,
    );
  const lose = (...secrets: string[]) => own("delete", "secret", ...secrets);
  const store = (secret: string, data: object) =>
    own("patch", "secret", secret, "--type=merge", "-p", JSON.stringify({ data }));
  const overwrite = async (secret: string) =>
    store(secret, Object.fromEntries(Object.keys(await dataOf(secret)).map((key) => [key, "eA=="])));
  const LIFE = { now: Date.now(), days: 1 };
  /** Stores a leaf of this CA, with `offered` in `ca.crt`. */
  const storeLeaf = async (ca: PemPair, offered: string, names = NAMES) => {
    const { cert, key } = await issueLeaf(ca, names, LIFE);
    await store(OBJECTS.serving, { "tls.crt": encoded(cert), "tls.key": encoded(key), "ca.crt": encoded(offered) });
  };
  /** Stores a leaf of another CA. Returns the CA's certificate. */
  const storeForeign = async () => {
    const ca = await issueAuthority(LIFE);
    await storeLeaf(ca, ca.cert);
    return ca.cert;
  };
  /** Loses an object, and puts it back once there is another. */
  const restore = async (secret: string) => {
    const saved = await dataOf(secret);
    await lose(secret);
    await until("another one", isWell, EVENT_DEADLINE_MS);
    await store(secret, saved);
  };
  const EVENTS: Readonly<Record<string, () => Promise<unknown>>> = {
    "the leaf is lost": () => lose(OBJECTS.serving),
    "the CA is lost": () => lose(OBJECTS.ca),
    "the CA and the leaf are lost": () => lose(OBJECTS.ca, OBJECTS.serving),
    "the CA is lost four times in an overlap": async () => {
      for (let count = 0; count < 4; count += 1) {
        await lose(OBJECTS.ca);
        await until("another CA", async () => Object.keys(await dataOf(OBJECTS.ca)).length > 0);
      }
    },
    "the CA is overwritten": () => overwrite(OBJECTS.ca),
    "an older CA is restored": () => restore(OBJECTS.ca),
    "an older leaf is restored": () => restore(OBJECTS.serving),
    "an older caBundle is restored": async () => {
      const [saved = ""] = await system.bundles();
      await lose(OBJECTS.ca);
      await until("another CA", isWell, EVENT_DEADLINE_MS);
      await setBundle(saved);
    },
    "the caBundle is wiped": () => setBundle(""),
    "the first entry's caBundle is wiped": () => setBundle("", (at) => at === 0),
    "the last entry's caBundle is wiped": () => setBundle("", (at, last) => at === last),
    "the caBundle becomes another's": () => setBundle(encoded(system.cluster.ca.cert)),
    "the configuration is deleted and applied again": reapplyConfiguration,
    "the leaf becomes another's": storeForeign,
    "the leaf and the caBundle become another's": async () => setBundle(encoded(await storeForeign())),
    "the leaf becomes another's, whose CA is added": async () => {
      const [bundle] = await system.bundles();
      await setBundle(encoded(decoded(bundle) + (await storeForeign())));
    },
    "the leaf becomes that of an unknown CA": async () => storeLeaf(await issueAuthority(LIFE), ""),
    "the Service gets new names": async () => {
      const { "ca.crt": cert, "ca.key": key } = await dataOf(OBJECTS.ca);
      await storeLeaf({ cert: decoded(cert), key: decoded(key) }, decoded(cert), ["old.example.com"]);
    },
    "the leader is killed after it has lost the CA": async () => {
      const leader = await system.leader();
      await system.start("controller");
      await lose(OBJECTS.ca);
      await system.end(leader, "SIGKILL");
    },
  };
  let refusedInAll = 0;

  for (const [event, cause] of Object.entries(EVENTS)) {
    it(`end soon after ${event}`, async (t) => {
      const stream = streamPods(system, { namespace: "events", concurrency: 4 });
      await until("the first pods", () => stream.created.length > 10);
      await cause();
      await until("the certificates to be well", isWell, EVENT_DEADLINE_MS);
      const count = stream.created.length;
      await until("pods after it", () => stream.created.length > count + AFTERWARDS);
      const created = await stream.stop();
      const seconds = refusedSeconds(created);
      refusedInAll += seconds;
      t.diagnostic(`${created.length} calls; refused during ${seconds.toFixed(1)} s`);
      assert.deepEqual(refused(created.slice(count)), []);
    });
  }

  it(`are refused for at most ${MOST_REFUSED_SECONDS} s in all`, (t) => {
    t.diagnostic(`${refusedInAll.toFixed(1)} s`);
    assert.ok(refusedInAll <= MOST_REFUSED_SECONDS, `${refusedInAll} s`);
  });
});
