import assert from "node:assert/strict";
import { afterEach, describe, it } from "node:test";
import { aliasesOf, injectRig } from "#test/fakes/inject-rig.ts";
import { type FakeApi, fakeApi, json, noConnections, type Responder, refuse } from "#test/fakes/kube-api.ts";
import { edited, mapObjects, OBJECTS } from "#test/published.ts";

const { files, run } = await injectRig();

describe("inject with the live map", () => {
  let api: FakeApi;
  afterEach(() => api.close());

  const [map] = mapObjects({ "a.example.com": ["203.0.113.5"] });
  const { data } = edited("203.0.113.5 b.example.com\n");

  async function live(respond: Responder) {
    api = await fakeApi(respond);
    return await run({ kubeconfig: await files.kubeconfig(api.url) });
  }

  it("reads the map of Switchback's namespace in one call", async () => {
    const { stdout } = await live(json(map));
    await noConnections(api);
    assert.deepEqual(aliasesOf(stdout), [{ ip: "203.0.113.5", hostnames: ["a.example.com"] }]);
    assert.deepEqual(
      api.calls.map(({ path }) => path),
      [`/api/v1/namespaces/ours/configmaps/${OBJECTS.map}`],
    );
  });

  for (const [what, respond, error] of [
    [
      "the map is missing",
      refuse(404, "NotFound"),
      { code: "data-corrupt", message: /namespace ours .* ConfigMap .* does not exist/ },
    ],
    [
      "somebody has edited the map",
      json({ ...map, data }),
      { code: "data-corrupt", message: /is not as the leader wrote it/ },
    ],
    ["the API server refuses", refuse(403, "Forbidden"), { code: "kube-status", status: 403 }],
  ] as const) {
    it(`prints nothing if ${what}`, async () => {
      await assert.rejects(live(respond), error);
      assert.equal(api.calls.length, 1);
    });
  }
});
