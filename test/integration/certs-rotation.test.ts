import assert from "node:assert/strict";
import { after, afterEach, before, it } from "node:test";
import { issueAuthority, issueLeaf, servingNames } from "#certs/issue.ts";
import { isSignedBy, parseCertificates } from "#certs/pem.ts";
import { KubeSecretStore } from "#certs/secret-store-kube.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { endlessTerm } from "../fakes/term.ts";
import { OBJECTS } from "../published.ts";
import { type CertsCluster, NAMESPACE, startCertsCluster, until } from "./certs-cluster.ts";

const DAY = 86_400_000;
let cluster: CertsCluster;
before(async () => {
  cluster = await startCertsCluster();
});
afterEach(() => cluster.quiet());
after(() => cluster.stop());

/** Stores a CA whose lifetime is more than two thirds over, and a valid leaf of it for the replicas to serve. */
async function seedOldCa(): Promise<{ ca: string }> {
  const client = await cluster.clientOf("controller");
  const store = new KubeSecretStore({ client, namespace: NAMESPACE, log: silentLogger, fence: endlessTerm(client) });
  const ca = await issueAuthority({ now: Date.now() - 70 * DAY, days: 100 });
  const names = servingNames("switchback-webhook", NAMESPACE, "cluster.local");
  const leaf = await issueLeaf(ca, names, { now: Date.now(), days: 10 });
  await store.write(OBJECTS.ca, { "ca.crt": ca.cert, "ca.key": ca.key }, await store.read(OBJECTS.ca));
  const data = { "tls.crt": leaf.cert, "tls.key": leaf.key, "ca.crt": ca.cert };
  await store.write(OBJECTS.serving, data, await store.read(OBJECTS.serving));
  return { ca: ca.cert };
}

/** Starts two replicas with the old leaf behind the Service, and makes the API server trust its CA. */
async function serveOld(ca: string): Promise<() => (string | undefined)[]> {
  const replicas = [await cluster.serve(), await cluster.serve()];
  const ports = replicas.map(({ port }) => port);
  cluster.cluster.routeService(`${NAMESPACE}/switchback-webhook`, 443, ports);
  const value = Buffer.from(ca).toString("base64");
  const patch = [0, 1].map((at) => ({ op: "add", path: `/webhooks/${at}/clientConfig/caBundle`, value }));
  await cluster.kubectl([
    "patch",
    "mutatingwebhookconfiguration",
    "switchback-webhook",
    "--type=json",
    "-p",
    JSON.stringify(patch),
  ]);
  const served = () => replicas.map(({ watch }) => watch.status().fingerprint);
  await until(() => served().every((id) => id !== undefined), "certificates in the replicas");
  await until(async () => (await cluster.admit()) === "" && (await cluster.admit()) === "", "admissions");
  return served;
}

async function checkRotated(ca: string): Promise<void> {
  const tls = (await cluster.secret(OBJECTS.serving))!;
  for (const bundle of await cluster.bundles()) {
    const [only, more] = parseCertificates(bundle);
    assert.ok(only && more === undefined && only.pem !== ca, "one CA, a new one");
    assert.ok(isSignedBy(parseCertificates(tls["tls.crt"]!)[0]!, only));
  }
}

it("a CA is rotated while pods are created: no creation fails, and every replica gets the new leaf", async () => {
  const { ca } = await seedOldCa();
  const served = await serveOld(ca);
  const [old] = served();
  const admissions = cluster.admissions();
  const manager = await cluster.manage({ overlapSeconds: 2 });
  const from = Date.now();
  await until(() => manager.status().state.code === "before-switch", "the first half");
  assert.ok((await cluster.bundles()).every((bundle) => parseCertificates(bundle).length === 2));
  await until(() => manager.status().state.code === "after-switch", "the second half");
  const half = Date.now() - from;
  await until(() => manager.status().state.code === "steady", "steady");
  assert.ok(half >= 2000 && Date.now() - from >= 4000, "two overlaps");
  assert.deepEqual(await admissions.stop(), []);
  assert.ok(served().every((id) => id !== old));
  await checkRotated(ca);
});

it("the leader changes in each half of a rotation, and no admission fails", async () => {
  const { ca } = await seedOldCa();
  await serveOld(ca);
  const admissions = cluster.admissions();
  const settings = { overlapSeconds: 2 };
  const first = await cluster.manage(settings);
  await until(() => first.status().state.code === "before-switch", "the first half");
  await first.stop();
  const next = (await cluster.secret(OBJECTS.ca))?.["next.crt"];
  const second = await cluster.manage(settings);
  await until(() => second.status().state.code === "after-switch", "the second half");
  await second.stop();
  const third = await cluster.manage(settings);
  await until(() => third.status().state.code === "steady", "steady");
  assert.deepEqual(await admissions.stop(), []);
  assert.equal((await cluster.secret(OBJECTS.ca))?.["ca.crt"], next, "it is the CA that the first leader made");
  await checkRotated(ca);
});

it("two managers that both believe they lead rotate once and agree, and no admission fails", async () => {
  const { ca } = await seedOldCa();
  await serveOld(ca);
  const admissions = cluster.admissions();
  const managers = await Promise.all([1, 2].map(() => cluster.manage({ overlapSeconds: 2 })));
  await until(() => managers.every((manager) => manager.status().state.code === "before-switch"), "the first half");
  const next = (await cluster.secret(OBJECTS.ca))?.["next.crt"];
  await until(() => managers.every((manager) => manager.status().state.code === "steady"), "steady");
  assert.deepEqual(await admissions.stop(), []);
  assert.equal((await cluster.secret(OBJECTS.ca))?.["ca.crt"], next);
  await checkRotated(ca);
  assert.deepEqual(
    managers.map((manager) => manager.status().lastError),
    [undefined, undefined],
  );
});

it("if the API server is down during a rotation, the rotation continues when it is back", async () => {
  const { ca } = await seedOldCa();
  await serveOld(ca);
  const manager = await cluster.manage({ overlapSeconds: 2 });
  await until(() => manager.status().state.code === "before-switch", "the first half");
  await cluster.cluster.stopApiServer("SIGKILL");
  await until(() => manager.status().lastError !== undefined, "that it says so");
  await cluster.cluster.startApiServer();
  await until(() => manager.status().state.code === "steady", "steady");
  assert.equal(manager.status().lastError, undefined);
  await checkRotated(ca);
  await until(async () => (await cluster.admit()) === "", "admissions");
});

/**
 * Does what cert-manager does: puts another CA's leaf into the same Secret. The caller puts that CA alone into the
 * caBundle, as cainjector does.
 */
async function certManagerTakesOver(): Promise<{ ca: string; leaf: string }> {
  const client = await cluster.clientOf("controller");
  const store = new KubeSecretStore({ client, namespace: NAMESPACE, log: silentLogger, fence: endlessTerm(client) });
  const ca = await issueAuthority({ now: Date.now(), days: 100 });
  const leaf = await issueLeaf(ca, [`switchback-webhook.${NAMESPACE}.svc`], { now: Date.now(), days: 10 });
  const data = { "tls.crt": leaf.cert, "tls.key": leaf.key, "ca.crt": ca.cert };
  await store.write(OBJECTS.serving, data, await store.read(OBJECTS.serving));
  return { ca: ca.cert, leaf: leaf.cert };
}

it("certs.mode is changed back from cert-manager while pods are created: no creation fails", async () => {
  const before = await cluster.manage({ overlapSeconds: 2 });
  await until(() => before.status().state.code === "steady", "a certificate of our own");
  await before.stop();
  const { ca, leaf } = await certManagerTakesOver();
  await serveOld(ca);
  const admissions = cluster.admissions();
  const manager = await cluster.manage({ overlapSeconds: 2 });
  await until(() => manager.status().state.code === "before-switch", "the first half");
  assert.equal((await cluster.secret(OBJECTS.serving))?.["tls.crt"], leaf, "its leaf goes on");
  assert.ok((await cluster.bundles()).every((bundle) => bundle.includes(ca) && parseCertificates(bundle).length === 2));
  await until(() => manager.status().state.code === "steady", "steady");
  assert.deepEqual(await admissions.stop(), []);
  await checkRotated(ca);
});
