import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { statusSecretData } from "#lib/documents/status-page.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import { skipWaits } from "#test/fakes/skipped-waits.ts";
import { OBJECTS } from "#test/published.ts";
import { installedIn, leaderStatus } from "./leader-status.ts";
import { cureOfRefusal } from "./missing-rights.ts";

const PATH = "/api/v1/namespaces/ours/services/switchback-controller:http/proxy/status";
const SECRET = `/api/v1/namespaces/ours/secrets/${OBJECTS.statusKey}`;
const CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const KEY = "k".repeat(43);

/** A server on which the replicas answer one after another; the last one then answers every call. */
function asked(t: TestContext, ...replicas: readonly object[]) {
  const server = new MemoryServer();
  server.add("/api/v1/namespaces/ours/secrets", OBJECTS.statusKey, { data: statusSecretData(KEY) });
  const pages = () => server.callsOf("GET", PATH).length;
  server.onCall = ({ path }) =>
    path === PATH ? { status: 200, body: replicas[Math.min(pages(), replicas.length) - 1] ?? {} } : undefined;
  return { server, time: skipWaits(t), pages };
}

/** A client of a controller that refuses. The API server passes the controller's text on, which is not JSON. */
function refusing(server: MemoryServer): KubeClient {
  const raw = async () => ({ status: 403, contentType: "text/plain", text: "send the key\n" });
  return { ...server.client, raw };
}

const leader = { leader: true, identity: "controller-1", warnings: [], targets: [], names: [] };
const follower = { leader: false, identity: "controller-0", warnings: [], targets: [], names: [] };

test("reads the key, and the leader's status with one call to its Service", async (t) => {
  const { server, time } = asked(t, leader);
  assert.deepEqual(await leaderStatus(server.client, "ours"), leader);
  const calls = server.calls.map(({ method, path }) => `${method} ${path}`);
  assert.deepEqual([calls, time.waits], [[`GET ${SECRET}`, `GET ${PATH}`], []]);
});

test("asks only for what is shown", async (t) => {
  const { server } = asked(t, leader);
  await leaderStatus(server.client, "ours", { in: "shop" });
  assert.deepEqual(Object.fromEntries(server.calls[1]?.query ?? []), { in: "shop" });
});

test("retries after a delay until the leader answers", async (t) => {
  const { server, time } = asked(t, follower, follower, leader);
  assert.deepEqual(await leaderStatus(server.client, "ours"), leader);
  assert.deepEqual(time.waits, [100, 100]);
});

test("without a leader, the status is not known", async (t) => {
  const { server, time, pages } = asked(t, follower);
  await assert.rejects(leaderStatus(server.client, "ours"), { code: "kube-unreachable" });
  assert.deepEqual([pages(), time.waits], [20, Array(19).fill(100)]);
});

test("says that Switchback is not installed, and how to install it", async (t) => {
  const { server } = asked(t);
  server.onCall = () => undefined;
  await assert.rejects(leaderStatus(server.client, "ours"), {
    code: "input-invalid",
    message: /^Switchback is not installed in the namespace ours: .* helm install /,
  });
});

test("without permission to read the key, fails with the refusal, and the cure names the Role", async (t) => {
  const { server } = asked(t);
  server.onCall = ({ path }) => (path === SECRET ? refusal(403, "Forbidden") : undefined);
  const error = await leaderStatus(refusing(server), "ours").catch((each: unknown) => each);
  assert.ok((error as Error).message.startsWith(`GET ${SECRET}: 403 Forbidden`));
  assert.match(
    cureOfRefusal(error, { command: "status", namespace: "ours" }) ?? "",
    /the ClusterRole switchback-reader/,
  );
});

test("without a key, reports that the controller creates one", async () => {
  await assert.rejects(leaderStatus(refusing(new MemoryServer()), "ours"), {
    code: "status-refused",
    message: `Secret ${OBJECTS.statusKey} in namespace ours has no key yet; the controller makes one when it starts`,
  });
});

test("if the key is refused, reports the controller's text", async (t) => {
  const { server } = asked(t);
  await assert.rejects(leaderStatus(refusing(server), "ours"), {
    code: "status-refused",
    message: `GET ${PATH}: send the key`,
  });
});

for (const status of [403, 500, 503]) {
  test(`does not retry a ${status}`, async (t) => {
    const { server, pages } = asked(t);
    server.onCall = ({ path }) => (path === PATH ? refusal(status, "Refused") : undefined);
    await assert.rejects(leaderStatus(server.client, "ours"), { code: "kube-status", status });
    assert.equal(pages(), 1);
  });
}

test("rejects a response that is not JSON", async () => {
  const client = new MemoryServer().client;
  const raw = async () => ({ status: 200, contentType: "text/html", text: "<html>" });
  await assert.rejects(leaderStatus({ ...client, raw }, "ours"), {
    code: "data-corrupt",
    message: `GET ${PATH}: the response is not JSON (text/html)`,
  });
});

test("sends no request once aborted", async (t) => {
  const { server } = asked(t, follower);
  const abort = new AbortController();
  abort.abort(new Error("interrupted"));
  await assert.rejects(leaderStatus(server.client, "ours", {}, abort.signal), /interrupted/);
  assert.equal(server.calls.length, 0);
});

test("finds the namespace: the default one, or that of the webhook which the API server calls", async () => {
  const server = new MemoryServer();
  assert.equal(await installedIn(server.client, undefined), "switchback-system");
  const webhooks = [{ clientConfig: { service: { namespace: "ours" } } }];
  server.add(CONFIGURATIONS, "switchback-webhook", { webhooks });
  assert.equal(await installedIn(server.client, undefined), "ours");
  const key = { data: statusSecretData(KEY) };
  server.add("/api/v1/namespaces/switchback-system/secrets", OBJECTS.statusKey, key);
  assert.equal(await installedIn(server.client, undefined), "switchback-system");
  assert.equal(await installedIn(server.client, "given"), "given");
  server.onCall = () => refusal(403, "Forbidden");
  assert.equal(await installedIn(server.client, undefined), "switchback-system");
  server.onCall = () => refusal(500, "Failed");
  await assert.rejects(installedIn(server.client, undefined), { status: 500 });
});
