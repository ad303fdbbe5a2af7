import assert from "node:assert/strict";
import { test } from "node:test";
import { FRONT_IP } from "../test/fakes/installed.ts";
import { MemoryServer, refusal } from "../test/fakes/memory-server.ts";
import type { AddressHolder } from "./address-holders.ts";
import { restartHolder } from "./restart-holder.ts";

const AT = "2026-01-01T00:00:00.000Z";

function holder(kind: string, addresses: readonly string[] = [FRONT_IP]): AddressHolder {
  return { namespace: "shop", kind, name: "web", pods: ["web-1"], addresses };
}

const pathOf = (kind: string) => `/apis/apps/v1/namespaces/shop/${kind.toLowerCase()}s/web`;

function withWorkload(kind: string, spec: object = {}): MemoryServer {
  const api = new MemoryServer();
  api.add(`/apis/apps/v1/namespaces/shop/${kind.toLowerCase()}s`, "web", { spec });
  return api;
}

const aliases = (...ips: string[]) => ({ template: { spec: { hostAliases: ips.map((ip) => ({ ip })) } } });

for (const kind of ["Deployment", "StatefulSet", "DaemonSet"]) {
  test(`a ${kind} gets the time on its template, and nothing else`, async () => {
    const api = withWorkload(kind, { paused: false, updateStrategy: { type: "RollingUpdate" } });
    assert.equal(await restartHolder(api.client, holder(kind), AT), undefined);
    const [patch, ...more] = api.callsOf("PATCH", pathOf(kind));
    const annotations = { "switchback.dev/restartedAt": AT };
    assert.deepEqual(patch?.body, { spec: { template: { metadata: { annotations } } } });
    assert.equal(patch?.query.get("fieldManager"), "switchback-uninstall");
    assert.deepEqual([more.length, api.writes.length], [0, 1]);
  });
}

for (const [code, text, kind, spec] of [
  [
    "in-template",
    "its own template has them: take the hostAliases out of its manifest",
    "Deployment",
    aliases("192.0.2.1", FRONT_IP),
  ],
  ["paused", "its rollouts are paused: resume it", "Deployment", { paused: true }],
  [
    "on-delete",
    "its update strategy is OnDelete: delete its pods",
    "DaemonSet",
    { updateStrategy: { type: "OnDelete" } },
  ],
] as const) {
  test(`${code}: it is not restarted, and that is the reason`, async () => {
    const api = withWorkload(kind, spec);
    assert.deepEqual(await restartHolder(api.client, holder(kind), AT), { code, text });
    assert.deepEqual(api.writes, []);
  });
}

test("aliases of its own that are not ours do not keep it", async () => {
  const api = withWorkload("Deployment", aliases("192.0.2.1"));
  assert.equal(await restartHolder(api.client, holder("Deployment"), AT), undefined);
  assert.equal(api.writes.length, 1);
});

test("its template's address is no obstacle where its pods do not hold it", async () => {
  const api = withWorkload("Deployment", aliases(FRONT_IP));
  assert.equal(await restartHolder(api.client, holder("Deployment", []), AT), undefined);
  assert.equal(api.writes.length, 1);
});

test("an object without a spec is restarted as well", async () => {
  const api = new MemoryServer();
  api.add("/apis/apps/v1/namespaces/shop/deployments", "web");
  assert.equal(await restartHolder(api.client, holder("Deployment"), AT), undefined);
  assert.equal(api.writes.length, 1);
});

test("what is gone already, or goes while it is restarted, needs no restart", async () => {
  assert.equal(await restartHolder(new MemoryServer().client, holder("Deployment"), AT), undefined);
  const api = withWorkload("Deployment");
  api.onCall = ({ method }) => (method === "PATCH" ? refusal(404, "NotFound") : undefined);
  assert.equal(await restartHolder(api.client, holder("Deployment"), AT), undefined);
});

for (const status of [403, 409, 500]) {
  for (const method of ["GET", "PATCH"]) {
    test(`a ${status} on its ${method} is the reason why it was not restarted`, async () => {
      const api = withWorkload("Deployment");
      api.onCall = (call) => (call.method === method ? refusal(status, "Refused") : undefined);
      const reason = await restartHolder(api.client, holder("Deployment"), AT);
      assert.equal(reason?.code, "restart-failed");
      assert.match(reason.text, new RegExp(`^it could not be restarted: ${method} ${pathOf("Deployment")}.*${status}`));
    });
  }
}
