import assert from "node:assert/strict";
import { afterEach, describe, it } from "node:test";
import {
  asksNewest,
  clientFor,
  collection,
  end,
  type FakeApi,
  type FakeCall,
  fakeApi,
  hang,
  inTurn,
  json,
  object,
  page,
  type Responder,
  refuse,
  reset,
  until,
  watch,
} from "#test/fakes/kube-api.ts";
import { type Watching, watching } from "#test/fakes/watching.ts";
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
const failure = (code: number, reason: string, details?: object) => ({
  type: "ERROR",
  object: { kind: "Status", code, reason, message: `${reason} in the stream`, details },
});

const isWatch = ({ query }: FakeCall) => query.get("watch") === "true";
/** The calls so far. `L` is a list, `W5` a watch from version 5. */
const calls = () => api.calls.filter((call) => !asksNewest(call));
const order = () => calls().map((call) => (isWatch(call) ? `W${call.query.get("resourceVersion")}` : "L"));
const gaps = () =>
  calls()
    .slice(1)
    .map((call, index) => call.at - (calls()[index]?.at ?? 0));

const firstList = page([object("a", "1"), object("b", "1")], "5");
/** The change that was missed while the watch was broken. */
const missed = watch([added("c", "7")]);

/** A watch that breaks as `first` says, and then works. */
const breaking = (first: Responder) => collection(firstList, inTurn(first, missed));

describe("a watch that breaks resumes from its version, and misses nothing", () => {
  const cases: [string, Responder, WatchOptions<string>["timings"]?][] = [
    ["a TCP reset between events", watch([added("x", "6")], reset)],
    ["a TCP reset in the middle of a line", watch([added("x", "6"), '{"type":"ADDED","obj'], reset)],
    ["a clean end in the middle of a line", watch([added("x", "6"), '{"type":"ADDED","obj'], end)],
    ["a black hole", watch([added("x", "6")], hang), { idleMs: 150 }],
    ["an ERROR that is not 410", watch([added("x", "6"), failure(500, "InternalError")])],
  ];
  for (const [title, first, timings] of cases) {
    it(title, async () => {
      const { changes } = await start(breaking(first), timings ? { timings } : {});
      await until(() => changes.includes("+c@7"), "the missed event");
      assert.deepEqual(changes, ["+a@1", "+b@1", "+x@6", "+c@7"]);
      assert.deepEqual(order(), ["L", "W5", "W6"]);
      const silent = title === "a black hole";
      assert.equal(
        seen.watcher.state.errors,
        silent ? 0 : 1,
        "an idle watch is not an error: nothing else may have happened",
      );
    });
  }

  it("a refused watch", async () => {
    const { changes, watcher } = await start(breaking(refuse(500, "InternalError")));
    await until(() => changes.includes("+c@7"), "the missed event");
    assert.deepEqual(order(), ["L", "W5", "W5"]);
    await until(() => watcher.state.following, "following");
    assert.equal(watcher.state.problem, undefined);
    assert.match(watcher.state.lastError ?? "", /500 InternalError/);
  });

  it("a watch that opens and never sends", async () => {
    const { changes } = await start(breaking(watch([], reset)));
    await until(() => changes.includes("+c@7"), "the missed event");
  });
});

describe("an expired version (410) causes a new list", () => {
  const later = page([object("b", "8"), object("c", "7")], "9");
  const cases: [string, Responder][] = [
    ["in the stream, with HTTP 200", watch([failure(410, "Expired")], end)],
    ["as the answer", refuse(410, "Gone")],
  ];
  for (const [title, first] of cases) {
    it(title, async () => {
      const { changes } = await start(collection(inTurn(firstList, later), inTurn(first, watch())));
      await until(() => order().length === 4, "the next watch");
      assert.deepEqual(order(), ["L", "W5", "L", "W9"]);
      assert.deepEqual(changes, ["+a@1", "+b@1", "~b@1>8", "+c@7", "-a@1"]);
    });
  }

  for (const how of ["ended", "broke"]) {
    it(`which a restored API server does not report: it is checked when a watch ${how}`, async () => {
      const first = watch(
        [added("x", "77")],
        how === "ended" ? (call: FakeCall) => void setTimeout(() => end(call), 60) : reset,
      );
      const lists = inTurn(firstList, later);
      const { changes } = await start(collection(lists, inTurn(first, watch()), page([], "9")));
      await until(() => order().length === 5, "a watch from the version that is there");
      assert.deepEqual(order(), ["L", "W5", "W77", "L", "W9"]);
      assert.deepEqual(changes.slice(3), ["~b@1>8", "+c@7", "-a@1", "-x@77"]);
    });
  }

  it("is not assumed if the check fails, or if versions are not integers", async () => {
    for (const newest of [refuse(500, "InternalError"), page([], "five")]) {
      const { watcher } = await start(collection(firstList, inTurn(watch([added("x", "77")], reset), watch()), newest));
      await until(() => order().length === 3 && watcher.state.following, "the next watch");
      assert.deepEqual(order(), ["L", "W5", "W77"]);
      await watcher.stop();
      await api.close();
    }
  });

  it("between two pages", async () => {
    const { changes } = await start(
      collection(inTurn(page([object("ghost", "1")], "5", "more"), refuse(410, "Expired"), later), watch()),
    );
    await until(() => order().length === 4, "a watch");
    assert.deepEqual(changes, ["+ghost@1", "+b@8", "+c@7", "-ghost@1"]);
    assert.equal(seen.watcher.state.errors, 0);
  });

  it("causes a backoff if it repeats", async () => {
    const { watcher } = await start(collection(firstList, watch([failure(410, "Expired")], end)), {
      timings: { backoffMs: 50, backoffCapMs: 400 },
    });
    await until(() => watcher.state.errors === 4, "four failures");
    const watchTimes = api.calls.filter(isWatch).map(({ at }) => at);
    assert.ok(watchTimes[3]! - watchTimes[0]! >= 50 + 100 + 200 - 10, String(watchTimes));
  });
});

describe("an invalid line causes a new list", () => {
  for (const line of [
    "{bad json}",
    "null",
    '{"type":"ADDED"}',
    '{"type":"NEW","object":{}}',
    '{"type":"ADDED","object":{"metadata":{"name":"x"}}}',
  ]) {
    it(line, async () => {
      const { changes, watcher } = await start(
        collection(inTurn(firstList, page([object("c", "7")], "9")), inTurn(watch([`${line}\n`]), watch())),
      );
      await until(() => order().length === 4, "the next watch");
      assert.deepEqual(order(), ["L", "W5", "L", "W9"]);
      assert.deepEqual(changes, ["+a@1", "+b@1", "+c@7", "-a@1", "-b@1"]);
      assert.equal(watcher.state.errors, 1);
    });
  }
});

describe("pauses", () => {
  it("grow while the server fails", async () => {
    await start(refuse(500, "InternalError"), { timings: { backoffMs: 50, backoffCapMs: 200 } });
    await until(() => api.calls.length === 6, "six calls");
    for (const [index, least] of [50, 100, 200, 200, 200].entries()) {
      assert.ok(gaps()[index]! >= least - 5, `pause ${index}: ${gaps()[index]} ms`);
    }
    assert.equal(seen.watcher.state.problem?.code, "server-error");
    assert.equal(seen.logs.length, 1, "one line per problem, not per attempt");
  });

  it("are as long as Retry-After says", async () => {
    const busy = refuse(429, "TooManyRequests", { "retry-after": "1" });
    const { changes } = await start(breaking(busy));
    await until(() => changes.includes("+c@7"), "the missed event");
    const [, second, third] = api.calls;
    assert.ok(third!.at - second!.at >= 990, `${third!.at - second!.at} ms`);
  });

  it("are as long as an ERROR in the stream says", async () => {
    const busy = watch([failure(429, "TooManyRequests", { retryAfterSeconds: 1 })]);
    const { changes } = await start(breaking(busy));
    await until(() => changes.includes("+c@7"), "the missed event");
    const [, second, third] = api.calls;
    assert.ok(third!.at - second!.at >= 990, `${third!.at - second!.at} ms`);
  });

  it("follow a watch that closes at once without an event", async () => {
    const { watcher } = await start(collection(firstList, watch([], end)), {
      timings: { backoffMs: 50, backoffCapMs: 100, shortMs: 2_000 },
    });
    await until(() => watcher.state.errors === 3, "three failures");
    assert.ok(gaps()[1]! >= 45 && gaps()[2]! >= 95, String(gaps()));
    assert.match(watcher.state.lastError ?? "", /closed as soon as it was opened/);
  });

  it("are short again after a watch that stayed open for a while", async () => {
    const steady: Responder = watch([], (call) => void setTimeout(() => reset(call), 120));
    const failures = Array.from({ length: 7 }, () => refuse(500, "InternalError"));
    await start(collection(inTurn(...failures, firstList), inTurn(steady, watch([added("c", "6")]))), {
      timings: { backoffMs: 10, backoffCapMs: 3_600_000, healthyMs: 100 },
    });
    await until(() => seen.changes.includes("+c@6"), "the next watch");
    assert.ok(gaps()[6]! >= 640, "it had grown");
    // The watch is open for 120 ms, then comes a pause of 10 ms. Without the reset the pause would be 1,280 ms.
    assert.ok(gaps().at(-1)! < 1_280, String(gaps()));
  });
});

describe("an unavailable resource", () => {
  for (const [status, reason, code] of [
    [404, "NotFound", "not-found"],
    [403, "Forbidden", "forbidden"],
  ] as const) {
    it(`${status} is reported as ${code}, retried slowly, and watched once it exists`, async () => {
      let there = false;
      const list: Responder = (call) => (there ? firstList(call) : refuse(status, reason)(call));
      const { watcher } = await start(collection(list, watch()), {
        timings: { backoffMs: 10, backoffCapMs: 20, unavailableCapMs: 160 },
      });
      await until(() => api.calls.length === 5, "five tries");
      for (const [index, least] of [40, 80, 160, 160].entries()) {
        assert.ok(gaps()[index]! >= least - 5, `pause ${index}: ${gaps()[index]} ms`);
      }
      assert.deepEqual([watcher.state.synced, watcher.state.problem?.code, seen.synced], [false, code, 0]);
      assert.ok(watcher.state.lastContact > 0, "an error status is a response");
      there = true;
      await until(() => watcher.state.synced && watcher.state.problem === undefined, "recovery");
      assert.equal(watcher.objects().size, 2);
    });
  }
});

describe("known objects are kept", () => {
  it("when a list fails halfway, and the watch continues meanwhile", async () => {
    const half = page([object("a", "2")], "8", "more");
    const { changes, watcher } = await start(
      collection(inTurn(firstList, half, refuse(500, "InternalError")), inTurn(watch(), watch([added("c", "7")]))),
      { timings: { relistMs: [1, 1] } },
    );
    await until(() => changes.includes("+c@7"), "an event after the failed list", 30_000);
    assert.deepEqual(changes, ["+a@1", "+b@1", "~a@1>2", "+c@7"]);
    assert.equal(watcher.objects().size, 3);
    assert.equal(watcher.state.synced, true);
    assert.equal(watcher.state.lists, 1);
  });

  it("when the response is something else with HTTP 200", async () => {
    const { watcher } = await start(
      collection(inTurn(firstList, json({ kind: "Pod" })), watch([failure(410, "Expired")], end)),
    );
    await until(() => watcher.state.problem?.code === "corrupt", "the odd answer");
    assert.equal(watcher.objects().size, 2);
  });

  it("when the server goes away and comes back, and `following` says so", async () => {
    await start(collection(firstList, watch()));
    const { watcher } = seen;
    await until(() => watcher.state.following, "following");
    const port = Number(api.url.port);
    await api.close();
    await until(() => watcher.state.problem?.code === "unreachable", "the outage being noticed");
    assert.deepEqual([watcher.state.synced, watcher.state.following, watcher.objects().size], [true, false, 2]);
    const errors = watcher.state.errors;
    await until(() => watcher.state.errors > errors + 5, "more tries");
    assert.ok(watcher.state.silentMs > watcher.state.inactiveMs, "an attempt is not a response");
    api = await fakeApi(collection(firstList, missed), { port });
    await until(() => seen.changes.includes("+c@7"), "the missed event");
    await until(() => watcher.state.following, "following again");
    assert.equal(seen.logs.at(-1)?.message, "watch recovered");
  });
});

describe("a start without a server", () => {
  it("waits for it", async () => {
    const placeholder = await fakeApi(hang);
    await placeholder.close();
    const client = clientFor(placeholder.url);
    seen = watching(client);
    await until(() => seen.watcher.state.errors >= 3, "three tries");
    assert.deepEqual([seen.watcher.state.synced, seen.watcher.state.problem?.code], [false, "unreachable"]);
    assert.equal(seen.watcher.state.lastContact, 0);
    api = await fakeApi(collection(firstList, watch()), { port: Number(placeholder.url.port) });
    await until(() => seen.watcher.state.synced, "a list");
    await seen.watcher.stop();
    client.close();
  });
});
