import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { LineLog } from "#test/fakes/clock.ts";
import { collection, fakeApi, json, type Responder, refuse, until, watch } from "#test/fakes/kube-api.ts";
import { type PublishedTargets, renderTargets } from "./targets-format.ts";
import { kubeTargetsReader, mountedTargets, readTargets } from "./targets-reader.ts";

const PORTS = [{ port: 80, listenPort: 15_000, upstreamPort: 80, protocol: "v1" }] as const;
const text = (name: string) => renderTargets([{ name, upstream: "h", ports: PORTS, clusterIPs: [] }]).text;

function configMap(version: string, data: object) {
  const metadata = { namespace: "switchback-system", name: "switchback-targets", uid: "u", resourceVersion: version };
  return { metadata, data };
}

async function follow(t: TestContext, list: Responder, events: object[] = []) {
  const api = await fakeApi(collection(list, watch(events)));
  const log = new LineLog();
  const found: string[] = [];
  const name = (targets: PublishedTargets | undefined) =>
    targets?.targets.map((target) => target.name).join() ?? "none";
  const running = kubeTargetsReader({ client: api.client, namespace: "switchback-system", log }).start((targets) => {
    found.push(name(targets));
  });
  t.after(async () => {
    await running.stop();
    await api.close();
  });
  return { api, found, log };
}

const list = (...items: object[]) => json({ kind: "List", metadata: { resourceVersion: "2" }, items });

test("reports the existing document and each change, but no invalid document and no deletion", async (t) => {
  const events = [
    { type: "MODIFIED", object: configMap("3", { "targets.json": "{" }) },
    { type: "MODIFIED", object: configMap("4", {}) },
    { type: "DELETED", object: configMap("5", {}) },
    { type: "ADDED", object: configMap("6", { "targets.json": text("b") }) },
  ];
  const { api, found, log } = await follow(t, list(configMap("2", { "targets.json": text("a") })), events);
  await until(() => found.length === 2, "both documents");
  assert.deepEqual(found, ["a", "b"]);
  assert.equal(log.lines.length, 2);
  const [call] = api.calls;
  assert.equal(call?.path, "/api/v1/namespaces/switchback-system/configmaps");
  assert.ok(api.calls.every(({ query }) => query.get("fieldSelector") === "metadata.name=switchback-targets"));
});

test("reports a missing ConfigMap, but not a refusal", async (t) => {
  const none = await follow(t, list());
  await until(() => none.found.length === 1, "the answer");
  assert.deepEqual(none.found, ["none"]);
  const refused = await follow(t, refuse(403, "Forbidden"));
  await until(() => refused.api.calls.length >= 2, "a second try");
  assert.deepEqual(refused.found, []);
});

test("the mounted copy is read if it exists and is valid", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "switchback-"));
  t.after(() => rm(folder, { recursive: true }));
  const path = join(folder, "targets.json");
  assert.equal(mountedTargets(path, new LineLog()), undefined);
  await writeFile(path, text("a"));
  assert.equal(mountedTargets(path, new LineLog())?.targets[0]?.name, "a");
  await writeFile(path, "{");
  const log = new LineLog();
  assert.equal(mountedTargets(path, log), undefined);
  assert.equal(log.lines.length, 1);
});

test("reading once gives the targets, a reason or undefined; another version gives a reason", async (t) => {
  const cases: ReadonlyArray<readonly [object, string | undefined]> = [
    [{ "targets.json": text("a") }, "a"],
    [{ "targets.json": text("a").replace('"version": 1', '"version": 2') }, "targets-malformed"],
    [{}, undefined],
  ];
  for (const [data, expected] of cases) {
    const api = await fakeApi(json(configMap("2", data)));
    t.after(() => api.close());
    const read = await readTargets(api.client, "switchback-system");
    assert.equal(read && ("code" in read ? read.code : read.targets[0]?.name), expected);
    assert.equal(api.calls[0]?.path, "/api/v1/namespaces/switchback-system/configmaps/switchback-targets");
  }
});
