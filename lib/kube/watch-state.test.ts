import assert from "node:assert/strict";
import { test } from "node:test";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { KubeStatusError } from "./status.ts";
import { createStateKeeper, isUnavailable } from "./watch-state.ts";

const START = 7_000;

function start() {
  const log = new LineLog();
  const clock = { now: START };
  const keeper = createStateKeeper("/pods", log, () => clock.now);
  return { clock, keeper, log };
}

const status = (status: number) => new KubeStatusError("GET /pods", status, { message: "x" });
const away = new SwitchbackError("kube-unreachable", "no answer");

test("before anything has happened, only time advances", () => {
  const { clock, keeper } = start();
  clock.now += 300;
  assert.deepEqual(keeper.state, {
    synced: false,
    following: false,
    lastContact: 0,
    lists: 0,
    watches: 0,
    errors: 0,
    silentMs: 300,
    inactiveMs: 300,
  });
});

test("a response counts as contact and activity; lists, watches and versions are counted and kept", () => {
  const { clock, keeper, log } = start();
  clock.now += 10;
  keeper.contact();
  keeper.listed("5");
  clock.now += 20;
  keeper.opened();
  keeper.healthy();
  keeper.version("6");
  clock.now += 40;
  assert.deepEqual(keeper.state, {
    synced: true,
    following: true,
    lastContact: START + 30,
    lists: 1,
    watches: 1,
    errors: 0,
    silentMs: 40,
    inactiveMs: 40,
    resourceVersion: "6",
  });
  keeper.listed("7");
  keeper.opened();
  const { lists, watches, resourceVersion } = keeper.state;
  assert.deepEqual([lists, watches, resourceVersion], [2, 2, "7"]);
  assert.deepEqual(log.lines, [], "a watch that was never interrupted has not recovered");
});

for (const [what, error, code, level] of [
  ["401", status(401), "unauthorized", "warn"],
  ["403", status(403), "forbidden", "warn"],
  ["404", status(404), "not-found", "warn"],
  ["410", status(410), "expired", "info"],
  ["a backup", new SwitchbackError("kube-expired", "restored from a backup"), "expired", "info"],
  ["429", status(429), "throttled", "warn"],
  ["400", status(400), "refused", "warn"],
  ["499", status(499), "refused", "warn"],
  ["500", status(500), "server-error", "warn"],
  ["503", status(503), "server-error", "warn"],
  ["no answer", away, "unreachable", "warn"],
  ["broken data", new SwitchbackError("data-corrupt", "not JSON"), "corrupt", "warn"],
  ["an error of our own", new TypeError("x is undefined"), "internal", "warn"],
] as const) {
  test(`a watch that ends because of ${what} has the problem ${code}`, () => {
    const { keeper, log } = start();
    keeper.failed(error);
    const { problem, lastError, errors } = keeper.state;
    assert.deepEqual([problem, lastError, errors], [{ code, text: error.message }, error.message, 1]);
    const message = "watch interrupted, will be retried";
    assert.deepEqual(log.lines, [{ level, fields: { path: "/pods", code, error: error.message }, message }]);
  });
}

test("only an error status counts as a response of the API server, but every failure counts as activity", () => {
  const { clock, keeper } = start();
  keeper.opened();
  keeper.healthy();
  clock.now += 1_000;
  keeper.failed(away);
  const { lastContact, silentMs, inactiveMs, following } = keeper.state;
  assert.deepEqual([lastContact, silentMs, inactiveMs, following], [START, 1_000, 0, false]);
  keeper.failed(status(500));
  assert.deepEqual([keeper.state.lastContact, keeper.state.silentMs], [START + 1_000, 0]);
});

test("a problem is logged when it begins, changes and ends (with its duration), but not when it repeats", () => {
  const { clock, keeper, log } = start();
  keeper.failed(away);
  clock.now += 2_000;
  keeper.failed(away);
  keeper.failed(status(503));
  clock.now += 3_000;
  keeper.healthy();
  assert.equal(keeper.state.problem, undefined);
  keeper.healthy();
  clock.now += 60_000;
  keeper.failed(away);
  clock.now += 1_000;
  keeper.healthy();
  assert.deepEqual(
    log.lines.map(({ level, fields }) => [level, fields]),
    [
      ["warn", { path: "/pods", code: "unreachable", error: "no answer" }],
      ["warn", { path: "/pods", code: "server-error", error: "GET /pods: 503: x" }],
      ["info", { path: "/pods", seconds: 5 }],
      ["warn", { path: "/pods", code: "unreachable", error: "no answer" }],
      ["info", { path: "/pods", seconds: 1 }],
    ],
  );
});

test("failing handlers are all counted, and logged once in ten seconds", () => {
  const { clock, keeper, log } = start();
  for (const after of [0, 9_999, 1, 9_999, 1]) {
    clock.now += after;
    keeper.handlerFailed("onChange of shop/a", new Error("broken"));
  }
  const error = "onChange of shop/a: broken";
  assert.deepEqual(
    log.lines,
    [1, 3, 5].map((errors) => ({
      level: "error",
      fields: { path: "/pods", error, errors },
      message: "a watch handler failed",
    })),
  );
  const { errors, lastError, problem } = keeper.state;
  assert.deepEqual([errors, lastError, problem], [5, error, undefined]);
});

test("a resource is unavailable if it is forbidden or not found", () => {
  const unavailable = [401, 402, 403, 404, 405, 410, 500].filter((one) => isUnavailable(status(one)));
  assert.deepEqual(unavailable, [403, 404]);
  assert.equal(isUnavailable(away), false);
});
