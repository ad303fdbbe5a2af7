import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { installed, NAMESPACE, ours } from "#test/fakes/installed.ts";
import { MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import { skipWaits } from "#test/fakes/skipped-waits.ts";
import { firstLike, mapObjects, OBJECTS, WRITTEN } from "#test/published.ts";
import { removeLeftovers } from "./leftovers.ts";

const LEASES = `/apis/coordination.k8s.io/v1/namespaces/${NAMESPACE}/leases`;
const CONTROLLER = { "app.kubernetes.io/name": "switchback", "app.kubernetes.io/component": "controller" };

const MAP = mapObjects({ "shop.example.com": ["198.51.100.9"] });
const RECORDS = WRITTEN.filter((name) => firstLike(name) === OBJECTS.records);
const SECRETS = [OBJECTS.ca, OBJECTS.serving, "switchback-cert-manager-ca", OBJECTS.statusKey];

/** A cluster with all objects that are created at run time. */
function remains(): MemoryServer {
  const api = installed();
  for (const object of MAP) api.add(ours("configmaps"), object.metadata.name, object);
  api.add(ours("configmaps"), "switchback-of-an-extra");
  for (const name of [OBJECTS.targets, ...RECORDS]) api.add(ours("configmaps"), name);
  for (const name of SECRETS) api.add(ours("secrets"), name);
  api.add(LEASES, OBJECTS.lease);
  return api;
}

const GONE = [
  "services/switchback-nginx",
  "configmaps/switchback-of-an-extra",
  ...MAP.map(({ metadata }) => `configmaps/${metadata.name}`),
  `configmaps/${OBJECTS.targets}`,
  ...RECORDS.map((name) => `configmaps/${name}`),
  ...SECRETS.map((name) => `secrets/${name}`),
  `leases/${OBJECTS.lease}`,
];

function run(t: TestContext, api: MemoryServer, { timeoutMs = 2_000, onWait = (_elapsed: number) => {} } = {}) {
  const time = skipWaits(t, onWait);
  const said: string[] = [];
  const say = (line: string) => void said.push(line);
  const parts = [{ configMaps: async () => ["switchback-of-an-extra"] }, {}];
  return {
    done: removeLeftovers({ client: api.client, namespace: NAMESPACE, timeoutMs, now: Date.now, say, parts }),
    said,
    time,
  };
}

test("deletes and reports each object created at run time, and nothing else", async (t) => {
  const api = remains();
  api.add(ours("services"), "switchback-controller", { spec: { clusterIP: "198.51.100.12" } });
  api.add(ours("configmaps"), "somebody-elses");
  api.add(ours("secrets"), "somebody-elses");
  api.add(LEASES, "somebody-elses");
  const labels = { "switchback.dev/target": "nginx", ...MAP[0]?.metadata.labels };
  for (const resource of ["services", "configmaps"]) {
    api.add(`/api/v1/namespaces/other/${resource}`, OBJECTS.map, { metadata: { labels } });
  }
  const before = [...api.objects.keys()];
  const { done, said, time } = run(t, api);
  await done;
  assert.deepEqual(
    said,
    GONE.map((name) => `deleted ${name}`),
  );
  const deleted = [...GONE.slice(0, -1).map((name) => ours(name)), `${LEASES}/${OBJECTS.lease}`];
  assert.deepEqual(new Set(before.filter((path) => !api.objects.has(path))), new Set(deleted));
  assert.deepEqual(
    api.writes,
    deleted.map((path) => `DELETE ${path}`),
  );
  assert.deepEqual(time.waits, []);
});

test("a missing object is not reported as deleted", async (t) => {
  const { done, said } = run(t, new MemoryServer());
  await done;
  assert.deepEqual(said, []);
});

for (const component of ["controller", "all"]) {
  test(`waits until the pod of component ${component} has ended`, async (t) => {
    const api = remains();
    const labels = { ...CONTROLLER, "app.kubernetes.io/component": component };
    api.add(ours("pods"), "controller-0", { metadata: { labels } });
    const { done, time } = run(t, api, {
      onWait: (elapsed) => {
        assert.deepEqual(api.writes, []);
        if (elapsed === 1_500) api.objects.delete(`${ours("pods")}/controller-0`);
      },
    });
    await done;
    assert.deepEqual(time.waits, [500, 500, 500]);
    assert.equal(api.writes.length, GONE.length);
  });
}

test("does not wait for other pods of Switchback, or for controllers elsewhere", async (t) => {
  const api = remains();
  api.add(ours("pods"), "proxy-0", { metadata: { labels: { ...CONTROLLER, "app.kubernetes.io/component": "proxy" } } });
  api.add(ours("pods"), "other", { metadata: { labels: { "app.kubernetes.io/component": "controller" } } });
  api.add("/api/v1/namespaces/other/pods", "controller-0", { metadata: { labels: CONTROLLER } });
  const { done, time } = run(t, api);
  await done;
  assert.deepEqual(time.waits, []);
});

test("deletes nothing while controllers run, and names them", async (t) => {
  const api = remains();
  for (const name of ["controller-0", "controller-1"])
    api.add(ours("pods"), name, { metadata: { labels: CONTROLLER } });
  const { done, said, time } = run(t, api);
  await assert.rejects(done, {
    code: "still-held",
    message: "a controller still runs, and would recreate what is deleted: controller-0, controller-1",
  });
  assert.deepEqual([said, api.writes, time.waits], [[], [], [500, 500, 500, 500]]);
});

for (const status of [403, 409, 500]) {
  test(`a ${status} on a deletion is passed on, and nothing more is deleted`, async (t) => {
    const api = remains();
    const refused = `${ours("secrets")}/${OBJECTS.ca}`;
    api.onCall = ({ path }) => (path === refused ? refusal(status, "Refused") : undefined);
    const { done, said } = run(t, api);
    await assert.rejects(done, { code: "kube-status", status });
    assert.equal(said.length, GONE.indexOf(`secrets/${OBJECTS.ca}`));
    assert.ok(api.objects.has(`${LEASES}/${OBJECTS.lease}`));
  });

  for (const resource of ["pods", "services"]) {
    test(`a ${status} on the list of ${resource} is passed on before anything is deleted`, async (t) => {
      const api = remains();
      api.onCall = ({ method, path }) =>
        method === "GET" && path === ours(resource) ? refusal(status, "Refused") : undefined;
      await assert.rejects(run(t, api).done, { code: "kube-status", status });
      assert.deepEqual(api.writes, []);
    });
  }
}
