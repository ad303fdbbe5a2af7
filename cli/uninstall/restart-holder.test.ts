import assert from "node:assert/strict";
import { test } from "node:test";
import { FRONT_IP } from "#test/fakes/installed.ts";
import { MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import type { AddressHolder } from "./address-holders.ts";
import { restartHolder } from "./restart-holder.ts";

const AT = "2026-01-01T00:00:00.000Z";

function holder(kind: string, addresses: readonly string[] = [FRONT_IP]): AddressHolder {
  return { namespace: "shop", kind, name: "web", restartable: true, pods: ["web-1"], addresses };
}

const pathOf = (kind: string) => `/apis/apps/v1/namespaces/shop/${kind.toLowerCase()}s/web`;

function withWorkload(kind: string, spec: object = {}, more: object = {}): MemoryServer {
  const api = new MemoryServer();
  put(api, kind, { spec, ...more });
  return api;
}

function put(api: MemoryServer, kind: string, { spec = {}, ...more }: { spec?: object } = {}): void {
  const metadata = { uid: "u", resourceVersion: "7", ...more };
  api.add(`/apis/apps/v1/namespaces/shop/${kind.toLowerCase()}s`, "web", { metadata, spec });
}

const aliases = (...ips: string[]) => ({ template: { spec: { hostAliases: ips.map((ip) => ({ ip })) } } });

for (const kind of ["Deployment", "StatefulSet", "DaemonSet"]) {
  test(`a ${kind} that has not changed since it was read gets only the time on its template`, async () => {
    const api = withWorkload(kind, { paused: false, updateStrategy: { type: "RollingUpdate" } });
    assert.equal(await restartHolder(api.client, holder(kind), AT), undefined);
    const [patch, ...more] = api.callsOf("PATCH", pathOf(kind));
    const annotations = { "switchback.dev/restartedAt": AT };
    const metadata = { uid: "u", resourceVersion: "7" };
    assert.deepEqual(patch?.body, { metadata, spec: { template: { metadata: { annotations } } } });
    assert.equal(patch?.query.get("fieldManager"), "switchback-uninstall");
    assert.deepEqual([more.length, api.writes.length], [0, 1]);
  });
}

for (const [code, text, kind, spec, metadata = {}] of [
  [
    "in-template",
    "its own template has them: take the hostAliases out of its manifest",
    "Deployment",
    aliases("192.0.2.1", FRONT_IP),
  ],
  [
    "in-template",
    "its own template has them: take the dnsConfig out of its manifest",
    "Deployment",
    { template: { spec: { dnsConfig: { nameservers: [FRONT_IP] } } } },
  ],
  ["not-restartable", "spec.paused: its rollout is paused", "Deployment", { paused: true }],
  ["not-restartable", "it is being deleted", "Deployment", {}, { deletionTimestamp: AT }],
] as const) {
  test(`${text}: it is not restarted for this reason`, async () => {
    const api = withWorkload(kind, spec, metadata);
    assert.deepEqual(await restartHolder(api.client, holder(kind), AT), { code, text });
    assert.deepEqual(api.writes, []);
  });
}

test("other aliases in its own template do not prevent the restart", async () => {
  const api = withWorkload("Deployment", aliases("192.0.2.1"));
  assert.equal(await restartHolder(api.client, holder("Deployment"), AT), undefined);
  assert.equal(api.writes.length, 1);
});

test("an address in its template does not prevent the restart if its pods do not hold it", async () => {
  const api = withWorkload("Deployment", aliases(FRONT_IP));
  assert.equal(await restartHolder(api.client, holder("Deployment", []), AT), undefined);
  assert.equal(api.writes.length, 1);
});

test("an object without a spec is also restarted", async () => {
  const api = new MemoryServer();
  api.add("/apis/apps/v1/namespaces/shop/deployments", "web");
  assert.equal(await restartHolder(api.client, holder("Deployment"), AT), undefined);
  assert.equal(api.writes.length, 1);
});

test("a workload that is gone, or is deleted during the restart, needs no restart", async () => {
  assert.equal(await restartHolder(new MemoryServer().client, holder("Deployment"), AT), undefined);
  const api = withWorkload("Deployment");
  api.onCall = ({ method }) => (method === "PATCH" ? refusal(404, "NotFound") : undefined);
  assert.equal(await restartHolder(api.client, holder("Deployment"), AT), undefined);
});

for (const status of [403, 409, 500]) {
  for (const method of ["GET", "PATCH"]) {
    test(`if its ${method} gets a ${status}, that is the reason why it was not restarted`, async () => {
      const api = withWorkload("Deployment");
      api.onCall = (call) => (call.method === method ? refusal(status, "Refused") : undefined);
      const reason = await restartHolder(api.client, holder("Deployment"), AT);
      assert.equal(reason?.code, "restart-failed");
      assert.match(reason.text, new RegExp(`^it could not be restarted: ${method} ${pathOf("Deployment")}.*${status}`));
      assert.equal(api.writes.length, patchesOf(method, status));
    });
  }
}

/** After a conflict, the workload is read again, with ten patches in all. */
function patchesOf(method: string, status: number): number {
  if (method === "GET") return 0;
  return status === 409 ? 10 : 1;
}

test("after a conflict, the newest version is read, checked and patched", async () => {
  const api = withWorkload("Deployment");
  let conflicts = 2;
  api.onCall = ({ method }) => {
    if (method !== "PATCH" || conflicts-- === 0) return undefined;
    put(api, "Deployment", { resourceVersion: String(10 - conflicts) } as object);
    return refusal(409, "Conflict");
  };
  assert.equal(await restartHolder(api.client, holder("Deployment"), AT), undefined);
  const versions = api
    .callsOf("PATCH", pathOf("Deployment"))
    .map(({ body }) => (body as { metadata: { resourceVersion: string } }).metadata.resourceVersion);
  assert.deepEqual(versions, ["7", "9", "10"]);
  api.onCall = ({ method }) => {
    if (method !== "PATCH") return undefined;
    put(api, "Deployment", { spec: { paused: true } });
    return refusal(409, "Conflict");
  };
  assert.equal((await restartHolder(api.client, holder("Deployment"), AT))?.code, "not-restartable");
});
