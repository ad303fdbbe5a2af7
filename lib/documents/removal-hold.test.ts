import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { confirmHold, readHold } from "./removal-hold.ts";

const INDEX = "/api/v1/namespaces/sys/configmaps/switchback-map";
const HOLD = { id: "a", since: 1, until: 5, names: 7, of: 12 };

/** Reads the hold of a map with this annotation. */
async function read(text: string | undefined) {
  const kube = new MemoryKube();
  kube.put(INDEX, { metadata: { annotations: text === undefined ? {} : { "switchback.dev/hold": text } } });
  return await readHold(kube.client, "sys");
}

test("a hold is parsed as it was written, without its start", async () => {
  const { since: _, ...expected } = HOLD;
  assert.deepEqual(await read(JSON.stringify(HOLD)), expected);
});

test("a map without the annotation has no hold; without a map, reading rejects with 404", async () => {
  assert.equal(await read(undefined), undefined);
  const kube = new MemoryKube();
  kube.put(INDEX, {});
  assert.equal(await readHold(kube.client, "sys"), undefined);
  await assert.rejects(readHold(new MemoryKube().client, "sys"), { status: 404 });
});

test("which values of a hold are accepted", async () => {
  const hold = (more: object) => read(JSON.stringify({ ...HOLD, ...more }));
  for (const until of [0, 8.64e15]) assert.equal((await hold({ until }))?.until, until);
  for (const bad of [{ id: "" }, { until: -1 }, { until: 8.64e15 + 2 }, { names: "7" }, { of: null }]) {
    await assert.rejects(hold(bad), { code: "data-corrupt" }, JSON.stringify(bad));
  }
});

test("an invalid annotation is reported with its first 200 characters", async () => {
  const text = "x".repeat(201);
  const message = `annotation switchback.dev/hold is invalid: "${"x".repeat(200)}"`;
  await assert.rejects(read(text), { code: "data-corrupt", message });
});

test("a confirmation writes the hold's id to the state, with its own field manager", async () => {
  const kube = new MemoryKube();
  kube.put(INDEX, {});
  await confirmHold(kube.client, "sys", "a");
  const body = { metadata: { annotations: { "switchback.dev/confirm": "a" } } };
  assert.deepEqual(kube.writes, [{ method: "PATCH", path: INDEX, fieldManager: "switchback-confirm", body }]);
});
