import assert from "node:assert/strict";
import { test } from "node:test";
import type { KubeClient } from "#lib/kube/client.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { MemoryKube, refusal } from "#test/fakes/memory-kube.ts";
import { settled } from "#test/fakes/stopped-time.ts";
import { authoritiesIn, holdsBundle } from "./ca-bundle.ts";
import { KubeBundleWriter } from "./ca-bundle-kube.ts";

const COLLECTION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const PATH = `${COLLECTION}/switchback-webhook`;
const base64 = (text: string) => Buffer.from(text).toString("base64");

function rig() {
  const kube = new MemoryKube();
  const patches: unknown[] = [];
  const jsonPatch = async (path: string, operations: unknown, options: unknown) => {
    patches.push({ path, operations, options });
  };
  const client = { ...kube.client, jsonPatch } as KubeClient;
  return { kube, patches, writer: new KubeBundleWriter({ client, log: new LineLog() }) };
}

test("reads the version and every entry's bundle", async () => {
  const { kube, writer } = rig();
  assert.equal(await writer.read(), undefined);
  const webhooks = [
    { name: "a", clientConfig: { caBundle: base64("PEM") } },
    { name: "b", clientConfig: {} },
    { name: "c" },
  ];
  kube.put(PATH, { webhooks });
  const entries = [
    { name: "a", bundle: "PEM" },
    { name: "b", bundle: "" },
    { name: "c", bundle: "" },
  ];
  assert.deepEqual(await writer.read(), { version: kube.at(PATH)?.metadata.resourceVersion, entries });
  kube.put(PATH, {});
  assert.deepEqual(await writer.read(), { version: kube.at(PATH)?.metadata.resourceVersion, entries: [] });
  assert.deepEqual([...new Set(kube.reads)], [PATH]);
});

test("a configuration that cannot be read is an error, not a missing configuration", async () => {
  const { kube, writer } = rig();
  const error = refusal(PATH, 403);
  kube.onRead = () => {
    throw error;
  };
  await assert.rejects(writer.read(), error);
});

test("writes every entry's bundle and nothing else, if the version has not changed since the read", async () => {
  const { patches, writer } = rig();
  const entries = ["a", "b"].map((name) => ({ name, bundle: "" }));
  await writer.write("PEM é", { version: "7", entries });
  const value = base64("PEM é");
  assert.deepEqual(patches, [
    {
      path: PATH,
      operations: [
        { op: "replace", path: "/metadata/resourceVersion", value: "7" },
        { op: "add", path: "/webhooks/0/clientConfig/caBundle", value },
        { op: "add", path: "/webhooks/1/clientConfig/caBundle", value },
      ],
      options: { fieldManager: "switchback-cabundle" },
    },
  ]);
});

test("reports each change and a missing configuration, and nothing after the end", async () => {
  const { kube, writer } = rig();
  const stop = new AbortController();
  let changes = 0;
  writer.watch(() => changes++, stop.signal);
  await settled();
  assert.equal(changes, 1, "the configuration is missing");
  kube.put(PATH, {});
  kube.put(`${COLLECTION}/another`, {});
  await settled();
  assert.equal(changes, 2);
  kube.remove(PATH);
  await settled();
  assert.equal(changes, 3);
  stop.abort();
  await settled();
  kube.put(PATH, {});
  await settled();
  assert.deepEqual([changes, kube.watched], [3, []]);
});

test("a configuration holds a bundle if every entry is exactly that bundle", () => {
  const view = (...bundles: string[]) => ({ version: "1", entries: bundles.map((bundle) => ({ name: "n", bundle })) });
  assert.deepEqual(
    [view("a", "a"), view("a", "b"), view("a "), view()].map((each) => holdsBundle(each, "a")),
    [true, false, false, true],
  );
  assert.deepEqual(authoritiesIn(view("", "text")), []);
});
