import assert from "node:assert/strict";
import { test } from "node:test";
import type { KubeClient } from "#lib/kube/client.ts";
import type { Query } from "#lib/kube/paths.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { until } from "#test/fakes/kube-api.ts";
import { mapAnnotations, renderMap } from "./map-format.ts";
import { kubeMapReader } from "./map-reader.ts";
import { isMap } from "./published-map.ts";

const LINE = { name: "shop.example.com", addresses: ["198.51.100.9"], holder: "shop" };

test("a map that is on the first of two pages is offered once, and is not missing", async () => {
  const { revision, data } = await renderMap([LINE]);
  const metadata = {
    name: "switchback-map",
    uid: "1",
    resourceVersion: "7",
    annotations: mapAnnotations(revision, undefined, ""),
  };
  const offers: string[] = [];
  const second = Promise.withResolvers<void>();
  const client = {
    get: async (_path: string, query: Query = {}) => {
      if (query.continue === undefined)
        return { metadata: { resourceVersion: "7", continue: "more" }, items: [{ metadata, data }] };
      await second.promise;
      return { metadata: { resourceVersion: "7" }, items: [] };
    },
    stream: async (_path: string, _query: Query, { signal, onOpen }: Parameters<KubeClient["stream"]>[2]) => {
      onOpen?.();
      offers.push("watching");
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      return "closed";
    },
  } as unknown as KubeClient;
  const reader = kubeMapReader({ client, namespace: "sys", log: silentLogger }).start((offer) =>
    offers.push(isMap(offer) ? offer.revision : offer.code),
  );
  await until(() => offers.includes(revision), "the map");
  second.resolve();
  await until(() => offers.includes("watching"), "the watch");
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.deepEqual(offers, [revision, "watching"]);
  await reader.stop();
});
