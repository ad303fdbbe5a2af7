import assert from "node:assert/strict";
import { afterEach, describe, it } from "node:test";
import { silentLogger } from "#lib/telemetry/log.ts";
import {
  collection,
  type FakeApi,
  type FakeCall,
  fakeApi,
  object,
  type Responder,
  watch,
} from "#test/fakes/kube-api.ts";
import { listAll } from "./list.ts";
import type { ApiObject } from "./types.ts";
import { watchObjects } from "./watch.ts";

// Tenants choose how large their objects are. etcd accepts 1.5 MiB for one, and its JSON may have six times as many
// bytes.

const MIB = 1024 * 1024;
const PODS = "/api/v1/pods";
const PAGE_BYTES = 3 * MIB;
let api: FakeApi;
afterEach(() => api.close());

function sized(name: string, bytes: number): ApiObject {
  return object(name, "1", { annotations: { filler: "x".repeat(bytes) } });
}

interface Asked {
  readonly limit: number;
  readonly bytes: number;
}

/** Serves a list in pages as the API server does. Records each request and the bytes of its page. */
function pages(items: readonly ApiObject[], asked: Asked[]): Responder {
  const texts = items.map((item) => JSON.stringify(item));
  return ({ query, response }: FakeCall) => {
    const limit = Number(query.get("limit"));
    const from = Number(query.get("continue") ?? 0);
    const next = from + limit < items.length ? { continue: String(from + limit) } : {};
    const metadata = JSON.stringify({ resourceVersion: "5", ...next });
    const text = `{"kind":"List","metadata":${metadata},"items":[${texts.slice(from, from + limit).join()}]}`;
    asked.push({ limit, bytes: text.length });
    response.on("error", () => {});
    response.end(text);
  };
}

const range = (count: number) => Array.from({ length: count }, (_, index) => index);
const names = (items: readonly ApiObject[]) => items.map(({ metadata }) => metadata?.name);

describe("a list", () => {
  it("reads no page over 3 MiB, and retries with half as many objects until one is left", async () => {
    const items = range(40).map((index) => sized(`pod-${index}`, 1.3 * MIB));
    const asked: Asked[] = [];
    api = await fakeApi(pages(items, asked));
    const { client } = api;
    const read: number[] = [];
    const counting = {
      async get<T>(...call: Parameters<typeof client.get>): Promise<T> {
        const page = await client.get<T>(...call);
        read.push(JSON.stringify(page).length);
        return page;
      },
    };
    const found = await listAll<ApiObject>(counting, PODS, { limit: 50 });
    assert.deepEqual([names(found.items), found.resourceVersion], [names(items), "5"]);
    assert.ok(Math.max(...read) <= PAGE_BYTES, `${Math.max(...read)}`);
    assert.deepEqual(
      asked.slice(0, 6).map(({ limit }) => limit),
      [50, 25, 12, 6, 3, 1],
    );
    // At most every second page is requested in vain.
    assert.ok(asked.length <= 2 * items.length, `${asked.length}`);
  });

  it("with one object of 9 MiB and 1,000 small ones takes only a few more requests", async () => {
    const items = range(1000).map((index) => sized(`pod-${index}`, index === 300 ? 9 * MIB : 1000));
    const asked: Asked[] = [];
    api = await fakeApi(pages(items, asked));
    const found = await listAll<ApiObject>(api.client, PODS, { limit: 100 });
    assert.deepEqual(names(found.items), names(items));
    assert.ok(asked.length < 35, `${asked.length}`);
  });

  it("fails with an object over 16 MiB, which no API server has", async () => {
    api = await fakeApi(pages([sized("pod-0", 17 * MIB)], []));
    await assert.rejects(listAll<ApiObject>(api.client, PODS), {
      code: "data-corrupt",
      message: /longer than 16777216/,
    });
  });
});

describe("a watch", () => {
  it("receives an event of 9 MiB, and the events after it", async () => {
    const events = [
      { type: "ADDED", object: { ...sized("big", 9 * MIB) } },
      { type: "ADDED", object: object("small", "7") },
    ];
    api = await fakeApi(collection(pages([], []), watch(events)));
    const seen: string[] = [];
    const both = Promise.withResolvers<void>();
    const informer = watchObjects({
      client: api.client,
      path: PODS,
      project: ({ metadata }) => metadata?.name,
      onChange({ key }) {
        seen.push(key);
        if (seen.length === 2) both.resolve();
      },
      log: silentLogger,
    });
    await both.promise;
    await informer.stop();
    assert.deepEqual(seen, ["shop/big", "shop/small"]);
  });
});
