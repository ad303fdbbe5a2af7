import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { CA_SECRET, TLS_SECRET } from "#certs/objects.ts";
import {
  type CertsCluster,
  CONFIGURATION,
  NAMESPACE,
  startCertsCluster,
  until,
  type WebhookEntry,
} from "./certs-cluster.ts";

let cluster: CertsCluster;
before(async () => {
  cluster = await startCertsCluster();
});
afterEach(() => cluster.quiet());
after(() => cluster.stop());

const same = async (bundle: string) => (await cluster.bundles()).every((live) => live === bundle);

/** Starts a manager and one webhook replica, and waits until an admission succeeds. */
async function settled() {
  const manager = await cluster.manage({ overlapSeconds: 1 });
  const replica = await cluster.serve();
  cluster.cluster.routeService(`${NAMESPACE}/switchback-webhook`, 443, [replica.port]);
  await until(() => manager.status().state.code === "steady", "steady");
  await until(() => replica.watch.status().fingerprint !== undefined, "a certificate in the replica");
  await until(async () => (await cluster.admit()) === "", "an admission");
  const [bundle = ""] = await cluster.bundles();
  return { manager, replica, bundle };
}

describe("a first start", () => {
  it("lets the API server call the webhook, with the controller's own rights", async () => {
    assert.match(await cluster.admit(), /failed calling webhook/, "before: nothing serves");
    const { manager, replica, bundle } = await settled();
    assert.equal(manager.status().lastError, undefined);
    assert.ok(replica.calls() > 0);
    assert.ok(bundle.startsWith("-----BEGIN CERTIFICATE-----"));
    assert.equal((await cluster.bundles()).length, 3);
    assert.ok(await same(bundle));
    const types = await cluster.kubectl(["get", "secrets", "-n", NAMESPACE, "-o", "jsonpath={.items[*].type}"]);
    assert.equal(types, "Opaque kubernetes.io/tls");
  });

  it("owns caBundle and nothing else of the configuration", async () => {
    const { managedFields = [] } = (await cluster.configuration())?.metadata ?? {};
    const ours = managedFields.filter(({ manager }) => manager === "switchback-cabundle");
    const field = { "f:clientConfig": { "f:caBundle": {} } };
    const entries = ["namespace", "pod", "reachable"].map((name) => [`k:{"name":"${name}.switchback.dev"}`, field]);
    assert.deepEqual(
      ours.map(({ fieldsV1 }) => fieldsV1),
      [{ "f:webhooks": Object.fromEntries(entries) }],
    );
  });
});

describe("what someone else breaks", () => {
  it("a caBundle that is wiped or edited is restored, and the rest of the entry stays unchanged", async (t) => {
    const { bundle } = await settled();
    const before = (await cluster.configuration())?.webhooks;
    const edits = [
      [{ op: "remove", path: "/webhooks/0/clientConfig/caBundle" }],
      [{ op: "replace", path: "/webhooks/1/clientConfig/caBundle", value: Buffer.from("x").toString("base64") }],
      [0, 1].map((at) => ({ op: "remove", path: `/webhooks/${at}/clientConfig/caBundle` })),
    ];
    const taken: number[] = [];
    for (const edit of edits) {
      const from = performance.now();
      await cluster.kubectl([
        "patch",
        "mutatingwebhookconfiguration",
        "switchback-webhook",
        "--type=json",
        "-p",
        JSON.stringify(edit),
      ]);
      await until(() => same(bundle), "the bundle");
      taken.push(Math.round(performance.now() - from));
    }
    assert.deepEqual((await cluster.configuration())?.webhooks, before);
    t.diagnostic(`back after ${taken.join(", ")} ms, kubectl's own time included`);
    assert.ok(Math.max(...taken) < 3000, `${taken} ms`);
  });

  it("applying the chart again does not change the caBundle", async () => {
    const { bundle } = await settled();
    await cluster.install();
    assert.ok(await same(bundle));
  });

  it("a deleted TLS Secret is replaced by one of the same CA, and no admission fails", async () => {
    const { bundle, replica } = await settled();
    const admissions = cluster.admissions();
    const old = await cluster.secret(TLS_SECRET);
    await cluster.kubectl(["delete", "secret", "-n", NAMESPACE, TLS_SECRET]);
    await until(async () => (await cluster.secret(TLS_SECRET)) !== undefined, "a new one");
    assert.notEqual((await cluster.secret(TLS_SECRET))?.["tls.crt"], old?.["tls.crt"]);
    const was = replica.watch.status().fingerprint;
    await until(() => replica.watch.status().problem === undefined, "that the replica is content");
    assert.deepEqual(await admissions.stop(), []);
    assert.ok(await same(bundle));
    assert.ok(was !== undefined);
  });

  it("after the CA Secret is deleted, its CA is trusted until its leaf is gone, and no admission fails", async () => {
    const { bundle, manager } = await settled();
    const admissions = cluster.admissions();
    await cluster.kubectl(["delete", "secret", "-n", NAMESPACE, CA_SECRET]);
    await until(async () => (await cluster.bundles()).every((live) => live.length > bundle.length), "two CAs");
    assert.ok((await cluster.bundles()).every((live) => live.startsWith(bundle)));
    await until(() => manager.status().state.code === "steady", "steady");
    await until(async () => !(await cluster.bundles())[0]?.includes(bundle), "the old CA gone");
    assert.deepEqual(await admissions.stop(), []);
  });

  it("after both Secrets are deleted, the caBundle shows which CA is in use, and no admission fails", async () => {
    const { bundle, manager } = await settled();
    const admissions = cluster.admissions();
    await cluster.kubectl(["delete", "secret", "-n", NAMESPACE, TLS_SECRET, CA_SECRET]);
    await until(async () => (await cluster.secret(TLS_SECRET)) !== undefined, "a new leaf");
    await until(() => manager.status().state.code === "steady", "steady");
    await until(async () => !(await cluster.bundles())[0]?.includes(bundle), "the old CA gone");
    assert.deepEqual(await admissions.stop(), []);
  });

  it("a CA Secret that someone else restored, with invalid data in it, is repaired", async () => {
    const { manager } = await settled();
    await manager.stop();
    const data = await cluster.secret(CA_SECRET);
    await cluster.kubectl(["delete", "secret", "-n", NAMESPACE, CA_SECRET]);
    await cluster.kubectl(["apply", "--server-side", "--field-manager=backup", "-f", "-"], {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: CA_SECRET, namespace: NAMESPACE },
      stringData: { ...data, "ca.key": "rubbish" },
    });
    const next = await cluster.manage({ overlapSeconds: 1 });
    await until(() => next.status().state.code === "steady", "steady");
    assert.notEqual((await cluster.secret(CA_SECRET))?.["ca.crt"], data?.["ca.crt"]);
    assert.equal(await cluster.admit(), "");
  });
});

describe("a webhook configuration that is deleted or loses entries", () => {
  it("is not recreated, not even in part, and gets its bundle when it exists again", async () => {
    const { manager, bundle } = await settled();
    await cluster.kubectl(["delete", "mutatingwebhookconfiguration", "switchback-webhook"]);
    await until(() => manager.status().state.code === "bundle-absent", "that it says so");
    await cluster.kubectl(["delete", "secret", "-n", NAMESPACE, TLS_SECRET]);
    await until(async () => (await cluster.secret(TLS_SECRET)) !== undefined, "that it works on");
    await delay(1000);
    assert.equal(await cluster.configuration(), undefined);
    assert.equal(manager.status().lastError, undefined);
    await cluster.install();
    await until(() => same(bundle), "the bundle");
  });

  it("Helm can remove or rename an entry, and a new entry gets its bundle", async () => {
    const { bundle } = await settled();
    const names = async () => (await cluster.configuration())?.webhooks.map(({ name }) => name);
    await cluster.install(([first]) => [first as WebhookEntry]);
    assert.deepEqual(await names(), ["namespace.switchback.dev"]);
    await cluster.install((entries) => entries.map((entry) => ({ ...entry, name: `new-${entry.name}` })));
    await until(() => same(bundle), "the bundles");
    assert.deepEqual(
      await names(),
      ["namespace", "pod", "reachable"].map((name) => `new-${name}.switchback.dev`),
    );
    await cluster.install();
    await until(() => same(bundle), "the bundles");
    assert.deepEqual(
      await names(),
      ["namespace", "pod", "reachable"].map((name) => `${name}.switchback.dev`),
    );
  });
});

describe("the controller's rights", () => {
  it("other Secrets and configurations are forbidden", async () => {
    const client = await cluster.clientOf("controller");
    const options = { fieldManager: "switchback-certs", force: true };
    const metadata = { name: "other", namespace: NAMESPACE };
    const secret = { apiVersion: "v1", kind: "Secret", metadata, stringData: {} };
    await assert.rejects(client.apply(`/api/v1/namespaces/${NAMESPACE}/secrets/other`, secret, options), {
      status: 403,
    });
    await assert.rejects(client.get(CONFIGURATION.replace("switchback-webhook", "other")), { status: 403 });
  });
});
