import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { statusSecretData } from "#lib/documents/status-page.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import { skipWaits } from "#test/fakes/skipped-waits.ts";
import { OBJECTS } from "#test/published.ts";
import { leaderStatus } from "./leader-status.ts";
import { cureOfRefusal } from "./report-error.ts";

const PATH = "/api/v1/namespaces/ours/services/switchback-controller:http/proxy/status";
const SECRET = `/api/v1/namespaces/ours/secrets/${OBJECTS.statusKey}`;
const CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const KEY = "k".repeat(43);
const OURS = { installedIn: "ours" };

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

const page = { identity: "controller-0", synced: true, sources: [], warnings: [], targets: [], names: [] };
const leader = { ...page, leader: true };
const follower = { ...page, leader: false };

test("reads the key, and the leader's status with one call to its Service", async (t) => {
  const { server, time } = asked(t, leader);
  assert.deepEqual((await leaderStatus(server.client, OURS)).full, leader);
  const calls = server.calls.map(({ method, path }) => `${method} ${path}`);
  assert.deepEqual([calls, time.waits], [[`GET ${SECRET}`, `GET ${PATH}`], []]);
});

test("asks only for what is shown", async (t) => {
  const { server } = asked(t, leader);
  await leaderStatus(server.client, { ...OURS, of: "shop" });
  assert.deepEqual(Object.fromEntries(server.calls[1]?.query ?? []), { in: "shop" });
});

test("without a leader, the status is not known", async (t) => {
  const { server, time, pages } = asked(t, follower);
  await assert.rejects(leaderStatus(server.client, OURS), { code: "kube-unreachable" });
  assert.deepEqual([pages(), time.waits], [20, Array(19).fill(100)]);
});

test("says that Switchback is not installed, and how to install it", async (t) => {
  const { server } = asked(t);
  server.onCall = () => undefined;
  await assert.rejects(leaderStatus(server.client, OURS), {
    code: "input-invalid",
    message: /^Switchback is not installed in the namespace ours: .* helm install /,
  });
});

test("without permission to read the key, fails with the refusal, and the cure names the Role", async (t) => {
  const { server } = asked(t);
  server.onCall = ({ path }) => (path === SECRET ? refusal(403, "Forbidden") : undefined);
  const error = await leaderStatus(refusing(server), OURS).catch((each: unknown) => each);
  assert.ok((error as Error).message.startsWith(`GET ${SECRET}: 403 Forbidden`));
  assert.match(cureOfRefusal(error, { command: "status" }) ?? "", /the ClusterRole switchback-reader/);
});

test("without a key, reports that the controller creates one", async () => {
  await assert.rejects(leaderStatus(refusing(new MemoryServer()), OURS), {
    code: "status-refused",
    message: `Secret ${OBJECTS.statusKey} in namespace ours has no key yet; the controller makes one when it starts`,
  });
});

test("sends no request once aborted", async (t) => {
  const { server } = asked(t, follower);
  const abort = new AbortController();
  abort.abort(new Error("interrupted"));
  await assert.rejects(leaderStatus(server.client, { ...OURS, signal: abort.signal }), /interrupted/);
  assert.equal(server.calls.length, 0);
});

test("finds the namespace, and reads each key once", async (t) => {
  const { server } = asked(t);
  const ofLeader = ({ path }: { readonly path: string }) =>
    path.endsWith("/status") ? { status: 200, body: leader } : undefined;
  server.onCall = ofLeader;
  const found = async (query = {}) => {
    const before = server.calls.length;
    const { namespace } = await leaderStatus(server.client, query);
    const secrets = server.calls.slice(before).filter(({ path }) => path.includes("/secrets/"));
    return [namespace, ...secrets.map(({ path }) => path.split("/")[4])];
  };
  assert.deepEqual(await found(), ["switchback-system", "switchback-system"]);
  const webhooks = [{ clientConfig: { service: { namespace: "ours" } } }];
  server.add(CONFIGURATIONS, "switchback-webhook", { webhooks });
  assert.deepEqual(await found(), ["ours", "ours"]);
  server.onCall = (call) => (call.path.startsWith(CONFIGURATIONS) ? refusal(403, "Forbidden") : ofLeader(call));
  assert.deepEqual(await found(), ["switchback-system", "switchback-system"]);
  assert.deepEqual(await found(OURS), ["ours", "ours"]);
  server.onCall = () => refusal(500, "Failed");
  await assert.rejects(leaderStatus(server.client), { status: 500 });
});
