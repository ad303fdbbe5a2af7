import assert from "node:assert/strict";
import { afterEach, describe, it } from "node:test";
import { atTerminal, captured, useFiles } from "#test/fakes/cli.ts";
import { type FakeApi, fakeApi, json, noConnections, type Responder, refuse } from "#test/fakes/kube-api.ts";
import { confirmation, mapObjects, OBJECTS } from "#test/published.ts";
import { confirm } from "./confirm.ts";

const HOLD = { id: "abc", since: 0, until: Date.UTC(2030, 0, 1), names: 8, of: 12 };
/** The answer with a map, in which this is held. */
const holding = (hold?: string) => json(mapObjects({}, { hold })[0]);
const held = holding(JSON.stringify(HOLD));

const files = useFiles();
let api: FakeApi;
afterEach(() => api.close());

async function serve(respond: Responder): Promise<{ namespace: string; kubeconfig: string }> {
  api = await fakeApi(respond);
  return { namespace: "ours", kubeconfig: await files.kubeconfig(api.url) };
}

const patches = () => api.calls.filter(({ method }) => method === "PATCH");

describe("confirm", () => {
  it("writes only the id of the hold to the index", async () => {
    const flags = await serve(held);
    const { context, written } = captured();
    await confirm({ ...flags, yes: true }, context);
    assert.equal(written.stdout, "8 of 12 names are held until 2030-01-01T00:00:00.000Z\nconfirmed\n");
    const [patch, ...more] = patches();
    assert.ok(patch && more.length === 0);
    assert.equal(patch.path, `/api/v1/namespaces/ours/configmaps/${OBJECTS.map}`);
    assert.equal(patch.headers["content-type"], "application/merge-patch+json");
    assert.deepEqual(JSON.parse(patch.body), { metadata: { annotations: confirmation("abc") } });
  });

  it("without a hold, reports that and writes nothing", async () => {
    const flags = await serve(holding());
    const { context, written } = captured();
    await confirm({ ...flags, yes: true }, context);
    assert.equal(written.stdout, "no removal is held\n");
    assert.deepEqual(patches(), []);
    await noConnections(api);
  });

  it("without an index, reports where it looked", async () => {
    const flags = await serve(refuse(404, "NotFound"));
    await assert.rejects(confirm({ ...flags, yes: true }, captured().context), {
      code: "input-invalid",
      message: `ConfigMap ${OBJECTS.map} not found in namespace ours; is Switchback installed there? (--namespace)`,
    });
  });

  it("passes on a refusal by the API server", async () => {
    const flags = await serve((call) => (call.method === "GET" ? held(call) : refuse(403, "Forbidden")(call)));
    await assert.rejects(confirm({ ...flags, yes: true }, captured().context), { code: "kube-status", status: 403 });
  });

  for (const text of ["rubbish", "{}", "null", '{"id":5,"until":"x"}']) {
    it(`does not act on the hold ${text}`, async () => {
      const flags = await serve(holding(text));
      await assert.rejects(confirm({ ...flags, yes: true }, captured().context), {
        code: "data-corrupt",
        message: /switchback\.dev\/hold/,
      });
      assert.deepEqual(patches(), []);
    });
  }

  for (const [what, input, confirmed] of [
    ["y", "y\n", true],
    ["n", "n\n", false],
    ["nothing, as standard input is closed", "", false],
  ] as const) {
    it(`asks, and takes ${what} for ${confirmed ? "yes" : "no"}`, async (t) => {
      const flags = await serve(held);
      const shows = atTerminal(t, input);
      const { context, written } = captured();
      const done = confirm(flags, context);
      if (confirmed) await done;
      else await assert.rejects(done, { code: "declined" });
      assert.ok(shows("remove them now? [y/N] "));
      assert.equal(/\nconfirmed\n$/.test(written.stdout), confirmed);
      assert.equal(patches().length, confirmed ? 1 : 0);
    });
  }
});
