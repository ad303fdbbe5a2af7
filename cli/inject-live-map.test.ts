import assert from "node:assert/strict";
import { afterEach, describe, it } from "node:test";
import { aliasesOf, injectRig } from "#test/fakes/inject-rig.ts";
import { type FakeApi, fakeApi, inTurn, json, noConnections, type Responder, refuse } from "#test/fakes/kube-api.ts";
import { skipWaits } from "#test/fakes/skipped-waits.ts";
import { edited, mapObjects } from "#test/published.ts";

const { files, run } = await injectRig();

describe("inject with the live map", () => {
  let api: FakeApi;
  afterEach(() => api.close());

  const list = (items: readonly object[]) => json({ metadata: { resourceVersion: "1" }, items });
  const objects = mapObjects({ "a.example.com": ["203.0.113.5"] });
  const edit = edited(objects, "203.0.113.5 b.example.com\n");
  const whole = list(objects);
  const midway = list(objects.map((each) => (each.metadata.name === edit.name ? { ...each, ...edit } : each)));

  async function live(respond: Responder) {
    api = await fakeApi(respond);
    return await run({ kubeconfig: await files.kubeconfig(api.url) });
  }

  it("reads the ConfigMaps of Switchback's namespace by label, in one call", async () => {
    const { stdout } = await live(whole);
    await noConnections(api);
    assert.deepEqual(aliasesOf(stdout), [{ ip: "203.0.113.5", hostnames: ["a.example.com"] }]);
    const [call, ...more] = api.calls;
    assert.ok(call && more.length === 0);
    assert.equal(call.path, "/api/v1/namespaces/ours/configmaps");
    const labels = Object.entries(objects[0]?.metadata.labels ?? {});
    assert.equal(call.query.get("labelSelector"), labels.map((pair) => pair.join("=")).join());
  });

  it("reads again every 300 ms while the controller publishes", async (t) => {
    const { waits } = skipWaits(t);
    const { stdout } = await live(inTurn(midway, midway, whole));
    assert.deepEqual(aliasesOf(stdout), [{ ip: "203.0.113.5", hostnames: ["a.example.com"] }]);
    assert.equal(api.calls.length, 3);
    assert.deepEqual(
      waits.filter((ms) => ms === 300),
      [300, 300],
    );
  });

  for (const [what, respond, error] of [
    ["there is none", list([]), { code: "data-corrupt", message: /namespace ours .* ConfigMap .*not found/ }],
    ["its parts do not fit", midway, { code: "data-corrupt", message: /has another revision/ }],
    ["it is not to be read", refuse(403, "Forbidden"), { code: "kube-status", status: 403 }],
  ] as const) {
    it(`prints nothing when ${what}`, async (t) => {
      skipWaits(t);
      await assert.rejects(live(respond), error);
      // A refusal is not retried; otherwise inject reads five times.
      assert.equal(api.calls.length, what.endsWith("to be read") ? 1 : 5);
    });
  }
});
