import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import type { ServerResponse } from "node:http";
import { afterEach, describe, it } from "node:test";
import {
  asksNewest,
  collection,
  end,
  type FakeApi,
  fakeApi,
  hang,
  inTurn,
  object,
  page,
  type Responder,
  refuse,
  until,
  watch,
} from "#test/fakes/kube-api.ts";
import { type Watching, watching } from "#test/fakes/watching.ts";
import type { StreamOptions } from "./stream.ts";
import type { WatchOptions } from "./watch.ts";

let api: FakeApi;
let seen: Watching;

async function start(respond: Responder, options: Partial<WatchOptions<string>> = {}): Promise<Watching> {
  api = await fakeApi(respond);
  seen = watching(api.client, options);
  return seen;
}
afterEach(async () => {
  await seen.watcher.stop();
  await api.close();
});

const added = (name: string, version: string) => ({ type: "ADDED", object: object(name, version) });
const modified = (name: string, version: string) => ({ type: "MODIFIED", object: object(name, version) });
const deleted = (name: string, version: string) => ({ type: "DELETED", object: object(name, version) });
const bookmark = (version: string) => ({ type: "BOOKMARK", object: { metadata: { resourceVersion: version } } });

const watches = () => api.calls.filter(({ query }) => query.get("watch") === "true");
const lists = () => api.calls.filter((call) => call.query.get("watch") !== "true" && !asksNewest(call));

describe("a watch", () => {
  it("lists all pages, reports synced, then watches", async () => {
    const events = [added("c", "6"), modified("a", "7"), deleted("b", "8")];
    const { changes, watcher } = await start(
      collection(inTurn(page([object("a", "1")], "5", "more"), page([object("b", "2")], "5")), watch(events)),
    );
    await until(() => changes.length === 5, "five changes");
    assert.deepEqual(changes, ["+a@1", "+b@2", "+c@6", "~a@1>7", "-b@2"]);
    assert.deepEqual(Object.fromEntries(watcher.objects()), { "shop/a": "a@7", "shop/c": "c@6" });
    assert.equal(seen.synced, 1);
    const { synced, lists, watches, errors, resourceVersion, problem, lastContact, silentMs } = watcher.state;
    assert.deepEqual([synced, lists, watches, errors, resourceVersion, problem], [true, 1, 1, 0, "8", undefined]);
    assert.ok(Math.abs(lastContact + silentMs - Date.now()) < 60_000, "epoch milliseconds");
    await until(() => watcher.state.following, "following");
  });

  it("requests bookmarks, a timeout and the selectors", async () => {
    await start(collection(page([], "5"), watch()), {
      labelSelector: "app=web",
      fieldSelector: "metadata.name=x",
      pageSize: 7,
    });
    await until(() => watches().length === 1, "a watch");
    assert.equal(lists()[0]?.query.toString(), "limit=7&labelSelector=app%3Dweb&fieldSelector=metadata.name%3Dx");
    const query = Object.fromEntries(watches()[0]!.query);
    assert.deepEqual(query, {
      watch: "true",
      allowWatchBookmarks: "true",
      resourceVersion: "5",
      timeoutSeconds: "600",
      labelSelector: "app=web",
      fieldSelector: "metadata.name=x",
    });
  });

  it("is not synced before the last page", async () => {
    const { changes, watcher } = await start(collection(inTurn(page([object("a", "1")], "5", "more"), hang), hang));
    await until(() => api.calls.length === 2, "the second page being asked for");
    assert.deepEqual([watcher.state.synced, seen.synced, changes], [false, 0, ["+a@1"]]);
  });

  it("lists a namespace on request; an object with an event since the request stays as the event left it", async () => {
    const answer = Promise.withResolvers<void>();
    let stream: ServerResponse | undefined;
    const all = [object("changed", "1"), object("gone", "1"), object("same", "1")];
    const ofNamespace: Responder = async (call) => {
      await answer.promise;
      await page([...all, object("more", "1")], "9")(call);
    };
    const open: Responder = (call) => {
      stream = call.response;
      stream.writeHead(200).flushHeaders();
    };
    const other = collection(page(all, "5"), open);
    const { changes, watcher } = await start((call) => (call.path === "/ns/shop" ? ofNamespace : other)(call), {
      pathIn: (namespace) => `/ns/${namespace}`,
    });
    await until(() => stream !== undefined, "a watch");
    watcher.refresh("shop");
    await until(() => api.calls.some(({ path }) => path === "/ns/shop"), "the request");
    stream?.write([modified("changed", "7"), deleted("gone", "8")].map((each) => `${JSON.stringify(each)}\n`).join(""));
    await until(() => changes.includes("-gone@1"), "the events");
    changes.length = 0;
    answer.resolve();
    await until(() => changes.length > 0, "the list");
    assert.deepEqual(changes, ["+more@1"]);
    assert.deepEqual([...watcher.objects().values()].sort(), ["changed@7", "more@1", "same@1"]);
    stream?.end();
  });

  it("resumes at once from the version where a watch ended, including bookmarks", async () => {
    const clean: Responder = (call) => void setTimeout(() => end(call), 60);
    const { changes } = await start(
      collection(
        page([], "5"),
        inTurn(watch([added("a", "6")], end), watch([bookmark("77")], clean), watch([added("b", "78")])),
      ),
      // A backoff would take an hour.
      { timings: { backoffMs: 3_600_000, backoffCapMs: 3_600_000 } },
    );
    await until(() => changes.length === 2, "two changes");
    assert.deepEqual(
      watches().map(({ query }) => query.get("resourceVersion")),
      ["5", "6", "77"],
    );
    assert.equal(lists().length, 1);
    assert.equal(seen.watcher.state.errors, 0);
  });

  it("lists again periodically, and reports changes without an event", async () => {
    const first = page([object("same", "1"), object("again", "1"), object("gone", "1")], "9");
    const second = page([object("same", "1"), object("again", "1", { uid: "anew" }), object("new", "3")], "4");
    // This happens after a restore from a backup: versions went back, and a watch from a future version gets no events.
    const { changes, watcher } = await start(collection(inTurn(first, second), watch()), {
      timings: { relistMs: [100, 100] },
    });
    await until(() => lists().length >= 2 && watches().length >= 2, "a second list and watch");
    assert.deepEqual(changes.slice(0, 3).sort(), ["+again@1", "+gone@1", "+same@1"]);
    assert.deepEqual(changes.slice(3), ["~again@1>1", "+new@3", "-gone@1"]);
    assert.equal(watches()[1]?.query.get("resourceVersion"), "4");
    assert.equal(watches()[0]?.query.get("timeoutSeconds"), "1", "a watch ends in time for the list");
    assert.equal(seen.synced, 1);
    assert.equal(watcher.state.resourceVersion, "4");
  });

  it("stops: no handler is called, and the connection is closed", async () => {
    const { changes, watcher } = await start(
      collection(
        page([object("a", "1")], "5"),
        watch([], async (call) => {
          while (!call.response.destroyed) {
            call.response.write(`${JSON.stringify(added("b", "6"))}\n`);
            await new Promise((next) => setTimeout(next, 1));
          }
        }),
      ),
      { timings: { idleMs: 3_600_000 } },
    );
    await until(() => changes.length === 2, "a change by watch");
    await watcher.stop();
    const before = changes.length;
    await until(() => watches()[0]!.response.destroyed, "the connection being closed");
    assert.equal(changes.length, before);
    assert.deepEqual([...changes], ["+a@1", "+b@6"]);
    await watcher.stop();
    assert.equal(watcher.state.errors, 0, "stopping is not an error");
  });

  it("stops at once from a handler", async () => {
    const said: string[] = [];
    await start(
      collection(page([object("a", "1")], "5"), ({ response }) => {
        response.writeHead(200);
        // Two events in one chunk.
        response.write(`${JSON.stringify(added("b", "6"))}\n${JSON.stringify(added("c", "7"))}\n`);
      }),
      {
        onChange: ({ key }) => {
          said.push(key);
          if (key === "shop/b") void seen.watcher.stop();
        },
      },
    );
    await until(() => said.includes("shop/b"), "an event");
    await seen.watcher.stop();
    assert.deepEqual(said, ["shop/a", "shop/b"]);
  });

  it("stops during a backoff too", async () => {
    await start(refuse(500, "InternalError"), { timings: { backoffMs: 3_600_000, backoffCapMs: 3_600_000 } });
    await until(() => seen.watcher.state.errors === 1, "a failure");
    await seen.watcher.stop();
  });

  it("can be stopped before it has started", async () => {
    await start(page([], "1"));
    await seen.watcher.stop();
    assert.equal(api.calls.length, 0);
  });

  it("does not leak memory over many watches", async () => {
    api = await fakeApi(collection(page([object("a", "1")], "5"), watch([modified("a", "6")], end)));
    let signal: AbortSignal | undefined;
    const client = {
      get: api.client.get,
      stream: (path: string, query: Parameters<typeof api.client.stream>[1], options: StreamOptions) => {
        signal = options.signal;
        return api.client.stream(path, query, options);
      },
    };
    seen = watching(client);
    await until(() => seen.watcher.state.watches > 150, "many watches", 60_000);
    assert.ok(getEventListeners(signal!, "abort").length <= 2, "listeners");
    assert.ok(api.connections() <= 2, `${api.connections()} connections`);
    assert.ok(process.getActiveResourcesInfo().filter((each) => each === "Timeout").length < 10, "timers");
    assert.deepEqual(seen.changes, ["+a@1", "~a@1>6"]);
  });
});

describe("a handler that fails", () => {
  const events = [added("b", "6"), added("c", "7")];

  it("by throwing is logged at intervals and ends nothing", async () => {
    let called = 0;
    const { logs, watcher } = await start(collection(page([object("a", "1")], "5"), watch(events)), {
      onChange: () => {
        called++;
        throw new Error("broken handler");
      },
      onSynced: () => {
        throw new Error("broken too");
      },
    });
    await until(() => called === 3, "three calls");
    assert.deepEqual([...watcher.objects().keys()], ["shop/a", "shop/b", "shop/c"]);
    assert.equal(watcher.state.errors, 4);
    const said = logs.filter(({ level }) => level === "error");
    assert.deepEqual(
      said.map(({ fields }) => fields.error),
      ["onChange of shop/a: broken handler"],
    );
    assert.equal(watches().length, 1);
  });

  it("by rejecting does not end the process", async () => {
    const { watcher } = await start(collection(page([object("a", "1")], "5"), watch(events)), {
      onChange: async () => {
        throw new Error("broken handler");
      },
    });
    await until(() => watcher.state.errors === 3, "three failures");
  });

  it("in the projection does not affect other objects", async () => {
    const { watcher, changes } = await start(collection(page([object("a", "1"), object("odd", "1")], "5"), watch()), {
      project: ({ metadata }) => {
        if (metadata?.name === "odd") throw new Error("cannot read this");
        return metadata?.name ?? "";
      },
    });
    await until(() => watcher.state.synced, "a list");
    assert.deepEqual(changes, ["+a"]);
    assert.match(watcher.state.lastError ?? "", /projection of shop\/odd: cannot read this/);
  });
});
