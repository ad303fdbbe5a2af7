import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { statusOf } from "#lib/errors/errors.ts";
import { type ConnectedClient, connect } from "#lib/kube/connect.ts";
import { createEventRecorder } from "#lib/kube/events.ts";
import { corePath, resourcePath } from "#lib/kube/paths.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import { type ControlPlane, startControlPlane } from "../cluster/controlplane.ts";
import { until } from "../fakes/kube-api.ts";
import { type Watching, watching } from "../fakes/watching.ts";
import { OBJECTS } from "../published.ts";

let cluster: ControlPlane;
let admin: ConnectedClient;
const watches: Watching[] = [];
const clients: ConnectedClient[] = [];

before(async () => {
  cluster = await startControlPlane();
  admin = await connect({ kubeconfig: cluster.adminKubeconfig });
  clients.push(admin);
});
after(async () => {
  await Promise.all(watches.map(({ watcher }) => watcher.stop()));
  for (const client of clients) client.close();
  await cluster.stop();
});

const ingresses = (namespace?: string, name?: string) =>
  resourcePath({
    group: "networking.k8s.io",
    version: "v1",
    resource: "ingresses",
    ...(namespace ? { namespace } : {}),
    ...(name ? { name } : {}),
  });
const configMap = (namespace: string, name: string, data: object = {}) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { namespace, name },
  data,
});
const ingress = (namespace: string, name: string, host = `${name}.example.com`) => ({
  apiVersion: "networking.k8s.io/v1",
  kind: "Ingress",
  metadata: { namespace, name },
  spec: { rules: [{ host }] },
});
const me = { fieldManager: "test" };

/** Creates a namespace for one test. */
async function newNamespace(): Promise<string> {
  const name = `test-${randomUUID().slice(0, 8)}`;
  await admin.create(corePath("namespaces"), { metadata: { name } });
  return name;
}

/**
 * A client with the token of a new ServiceAccount that has these rules in its namespace, connected as a pod would be.
 */
async function withRules(namespace: string, rules: object[]): Promise<ConnectedClient> {
  const name = `sa-${randomUUID().slice(0, 8)}`;
  await admin.create(corePath("serviceaccounts", namespace), { metadata: { name } });
  await grant(namespace, name, rules);
  const folder = await mkdtemp(join(cluster.folder, `${name}-`));
  await writeFile(join(folder, "token"), await cluster.tokenFor(`${namespace}/${name}`));
  await writeFile(join(folder, "ca.crt"), cluster.ca.cert);
  await writeFile(join(folder, "namespace"), namespace);
  const { hostname, port } = new URL(cluster.url);
  const client = await connect({ inCluster: { host: hostname, port, folder } });
  clients.push(client);
  return client;
}

async function grant(namespace: string, account: string, rules: object[]): Promise<void> {
  const rbac = (resource: string) =>
    resourcePath({ group: "rbac.authorization.k8s.io", version: "v1", namespace, resource });
  await admin.create(rbac("roles"), { metadata: { name: account }, rules });
  await admin.create(rbac("rolebindings"), {
    metadata: { name: account },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: account },
    subjects: [{ kind: "ServiceAccount", namespace, name: account }],
  });
}

function follow(client: ConnectedClient, options: Parameters<typeof watching>[1]): Watching {
  const seen = watching(client, options);
  watches.push(seen);
  return seen;
}

/** Names only: versions differ from run to run. */
const names = ({ changes }: Watching) => changes.map((change) => change.replace(/@.*/, ""));

/** Retries a forbidden call, because RBAC needs a moment to reach the authorizer. */
async function allowed<T>(call: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await call();
    } catch (error) {
      if (statusOf(error) !== 403 || tries === 50) throw error;
      await new Promise((next) => setTimeout(next, 100));
    }
  }
}

describe("list and watch", () => {
  it("of Ingresses in pages, then every change", async () => {
    const namespace = await newNamespace();
    for (let index = 0; index < 12; index++) {
      await admin.create(ingresses(namespace), ingress(namespace, `web-${index}`));
    }
    const seen = follow(admin, { path: ingresses(namespace), pageSize: 5 });
    await until(() => seen.watcher.state.synced, "the first list");
    assert.equal(seen.watcher.objects().size, 12);
    assert.equal(seen.synced, 1);
    await admin.create(ingresses(namespace), ingress(namespace, "new"));
    await admin.mergePatch(ingresses(namespace, "new"), { metadata: { labels: { a: "b" } } });
    await admin.delete(ingresses(namespace, "new"));
    await until(() => seen.changes.length === 15, "three changes");
    assert.deepEqual(names(seen).slice(12), ["+new", "~new", "-new"]);
    assert.deepEqual(seen.calls, { lists: 1, watches: 1, failed: 0 });
  });

  it("of a label selector: an object that loses the label is gone", async () => {
    const namespace = await newNamespace();
    const seen = follow(admin, { path: ingresses(namespace), labelSelector: "keep=yes" });
    await until(() => seen.watcher.state.following, "the watch");
    await admin.create(ingresses(namespace), ingress(namespace, "plain"));
    const labelled = { ...ingress(namespace, "kept"), metadata: { name: "kept", labels: { keep: "yes" } } };
    await admin.create(ingresses(namespace), labelled);
    await admin.mergePatch(ingresses(namespace, "kept"), { metadata: { labels: { keep: null } } });
    await until(() => seen.changes.length === 2, "two changes");
    assert.deepEqual(names(seen), ["+kept", "-kept"]);
  });

  it("of one object by name needs a right on that name only", async () => {
    const namespace = await newNamespace();
    const path = corePath("configmaps", namespace);
    const client = await withRules(namespace, [
      { apiGroups: [""], resources: ["configmaps"], resourceNames: ["hosts"], verbs: ["list", "watch"] },
    ]);
    const seen = follow(client, { path, fieldSelector: "metadata.name=hosts" });
    await until(() => seen.watcher.state.following, "the watch");
    await admin.create(path, configMap(namespace, "other"));
    await admin.create(path, configMap(namespace, "hosts"));
    await until(() => seen.changes.length === 1, "the object");
    assert.deepEqual(names(seen), ["+hosts"]);
    const all = follow(client, { path });
    await until(() => all.calls.failed > 1, "refusals");
    assert.deepEqual([all.watcher.state.synced, all.watcher.state.problem?.code], [false, "forbidden"]);
    assert.match(all.watcher.state.problem?.text ?? "", /cannot list resource "configmaps"/);
  });

  it("picks up a right that is given later", async () => {
    const namespace = await newNamespace();
    const client = await withRules(namespace, []);
    const seen = follow(client, { path: corePath("configmaps", namespace) });
    await until(() => seen.watcher.state.problem?.code === "forbidden", "a refusal");
    const [account] = (await admin.list<ApiObject>(corePath("serviceaccounts", namespace))).items
      .map(({ metadata }) => metadata?.name ?? "")
      .filter((name) => name.startsWith("sa-"));
    const rbac = { group: "rbac.authorization.k8s.io", version: "v1", namespace, resource: "roles", name: account! };
    const rules = [{ apiGroups: [""], resources: ["configmaps"], verbs: ["list", "watch"] }];
    await admin.mergePatch(resourcePath(rbac), { rules });
    await until(() => seen.watcher.state.following, "the watch");
    assert.equal(seen.watcher.state.problem, undefined);
  });

  it("of metadata only gets no spec and no status; a pod that has ended leaves its selection", async () => {
    const namespace = await newNamespace();
    const path = corePath("pods", namespace);
    const parts = (object: ApiObject) =>
      Object.keys(object)
        .filter((key) => /^(metadata|spec|status)$/.test(key))
        .join();
    const seen = follow(admin, { path, metadataOnly: true, fieldSelector: "status.phase!=Succeeded", project: parts });
    const pod = (name: string) => ({ metadata: { name }, spec: { containers: [{ name: "c", image: "c:1" }] } });
    for (const name of ["a", "b"]) await admin.create(path, pod(name));
    await until(() => seen.watcher.objects().size === 2, "the pods");
    assert.deepEqual([...seen.watcher.objects().values()], ["metadata", "metadata"]);
    await admin.mergePatch(`${path}/a/status`, { status: { phase: "Succeeded" } }, { fieldManager: "test" });
    await until(() => seen.watcher.objects().size === 1, "the ended pod to leave");
  });

  it("of a version that is gone gets an ERROR with HTTP 200", async () => {
    await cluster.restartApiServer();
    const lines: string[] = [];
    // Version 1 is older than all that the API server has in memory since it started.
    await admin.stream(
      corePath("configmaps"),
      { watch: true, resourceVersion: 1, timeoutSeconds: 1 },
      { signal: new AbortController().signal, idleMs: 10_000, onLine: (line) => void lines.push(line) },
    );
    const { type, object } = JSON.parse(lines[0] ?? "null");
    assert.deepEqual([type, object.code, object.reason], ["ERROR", 410, "Expired"]);
  });
});

describe("writes", () => {
  it("an identical apply changes nothing", async () => {
    const namespace = await newNamespace();
    const path = corePath("configmaps", namespace, "x");
    const first = await admin.apply<ApiObject>(path, configMap(namespace, "x", { a: "1" }), me);
    const second = await admin.apply<ApiObject>(path, configMap(namespace, "x", { a: "1" }), me);
    assert.equal(second.metadata?.resourceVersion, first.metadata?.resourceVersion);
  });

  it("a field of another manager is a conflict, unless forced", async () => {
    const namespace = await newNamespace();
    const path = corePath("configmaps", namespace, "x");
    await admin.apply(path, configMap(namespace, "x", { a: "1" }), { fieldManager: "other" });
    const mine = configMap(namespace, "x", { a: "2" });
    const conflict = await admin.apply(path, mine, me).catch((error: unknown) => error);
    assert.equal(statusOf(conflict), 409);
    assert.match(String(conflict), /409 Conflict: /);
    const forced = await admin.apply<{ data: object }>(path, mine, { ...me, force: true });
    assert.deepEqual(forced.data, { a: "2" });
  });

  it("replace is a compare-and-swap, and a dry run writes nothing", async () => {
    const namespace = await newNamespace();
    const path = corePath("configmaps", namespace, "x");
    const first = await admin.create<ApiObject>(corePath("configmaps", namespace), configMap(namespace, "x"));
    await admin.replace(path, { ...first, data: { a: "dry" } }, { dryRun: true });
    await admin.replace(path, { ...first, data: { a: "1" } });
    const stale = await admin.replace(path, { ...first, data: { a: "2" } }).catch((error: unknown) => error);
    assert.equal(statusOf(stale), 409);
    assert.deepEqual((await admin.get<{ data: object }>(path)).data, { a: "1" });
  });

  it("JSON patches, merge patches and conditional deletes have the expected effect", async () => {
    const namespace = await newNamespace();
    const path = corePath("configmaps", namespace, "x");
    await admin.apply(path, configMap(namespace, "x", { a: "1" }), me);
    await admin.jsonPatch(path, [
      { op: "test", path: "/data/a", value: "1" },
      { op: "add", path: "/data/b", value: "2" },
    ]);
    const failed = await admin.jsonPatch(path, [{ op: "test", path: "/data/a", value: "9" }]).catch((error) => error);
    assert.equal(statusOf(failed), 422);
    const patched = await admin.mergePatch<{ data: object }>(path, { data: { a: null, c: "3" } });
    assert.deepEqual(patched.data, { b: "2", c: "3" });
    const other = await admin.delete(path, { preconditions: { uid: randomUUID() } }).catch((error) => error);
    assert.equal(statusOf(other), 409);
    await admin.delete(path);
    assert.equal(statusOf(await admin.get(path).catch((error) => error)), 404);
  });

  it("raw text can be read, too", async () => {
    assert.match((await admin.raw("/metrics")).text, /^# HELP/);
    assert.equal((await admin.raw("/nowhere", { anyStatus: true })).status, 404);
  });
});

describe("the right to create one object by its name", () => {
  const rule = (verbs: string[]) => [{ apiGroups: [""], resources: ["configmaps"], resourceNames: ["hosts"], verbs }];

  it("is enough for server-side apply, and for nothing else", async () => {
    const namespace = await newNamespace();
    const client = await withRules(namespace, rule(["patch", "create"]));
    const apply = (name: string) =>
      client.apply(corePath("configmaps", namespace, name), configMap(namespace, name), me);
    await allowed(() => apply("hosts"));
    assert.equal(statusOf(await apply("other").catch((error) => error)), 403);
    // A POST names no object in its path, so no rule with resourceNames allows it.
    await admin.delete(corePath("configmaps", namespace, "hosts"));
    const posted = client.create(corePath("configmaps", namespace), configMap(namespace, "hosts"));
    assert.equal(statusOf(await posted.catch((error) => error)), 403);
    await apply("hosts");
  });
});

describe("Events", () => {
  it("are accepted, with everything at its limit, and kubectl shows them", async () => {
    const namespace = await newNamespace();
    const events = createEventRecorder({ client: admin, component: "controller", instance: "test-0", namespace });
    const record = { type: "Warning", action: "PublishMap", reason: "RemovalHeldBack" } as const;
    const hosts = { apiVersion: "v1", kind: "ConfigMap", name: OBJECTS.map };
    events.record({ ...record, note: "6 of 10 names would go", regarding: hosts });
    events.record({ ...record, note: "é".repeat(2_000), regarding: { ...hosts, uid: randomUUID() } });
    events.record({
      ...record,
      type: "Normal",
      note: "",
      regarding: { apiVersion: "v1", kind: "Namespace", name: namespace, namespace: "" },
    });
    const written = async (of: string) => {
      const path = resourcePath({ group: "events.k8s.io", version: "v1", namespace: of, resource: "events" });
      const { items } = await admin.list<{ regarding: { name: string } }>(path);
      return items.filter(({ regarding }) => [OBJECTS.map, namespace].includes(regarding.name)).length;
    };
    await until(async () => (await written(namespace)) === 2 && (await written("default")) === 1, "all Events");
    const shown = await cluster.kubectl("get", "events", "-n", namespace);
    assert.match(
      shown.stdout,
      new RegExp(`Warning +RemovalHeldBack +configmap/${OBJECTS.map} +6 of 10 names would go`),
    );
    const described = await cluster.kubectl("describe", "namespace", namespace);
    assert.equal(described.code, 0);
  });
});
