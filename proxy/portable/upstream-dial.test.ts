import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type FakeNetSocket, fakeConnect } from "#test/fakes/fake-net.ts";
import { stopTime } from "#test/fakes/stopped-time.ts";
import type { DialCause } from "../close-causes.ts";
import { newTargetStats, observeConnect } from "../target-stats.ts";
import { CandidateOrder } from "../upstream-candidates.ts";
import { dialUpstream, type UpstreamDialResult } from "./upstream-dial.ts";

const SELF = "10.0.0.66";

function start(t: TestContext, addresses: readonly string[], unresolved?: DialCause) {
  const pass = stopTime(t, 250);
  const sockets = fakeConnect(t);
  const [order, stats, results] = [new CandidateOrder(), newTargetStats(), [] as UpstreamDialResult[]];
  const asked: string[] = [];
  const options = {
    upstream: { addresses, port: 443, ...(unresolved && { unresolved }) },
    order,
    isSelf: (address: string, port: number) => {
      asked.push(`${address} ${port}`);
      return address === SELF;
    },
    connectTimeoutMs: 3_000,
    keepaliveMs: 15_000,
    stats,
  };
  const cancel = dialUpstream(options, (result) => results.push(result));
  const called = () => sockets.map(({ options }) => (options as { host: string }).host);
  const socket = (index: number): FakeNetSocket => sockets[index] ?? assert.fail(`no socket ${index}`);
  return { pass, order, stats, results, asked, cancel, called, socket };
}

const refused = (address: string) => ({ address, cause: "connection-refused", detail: "connect ECONNREFUSED" });

test("the first address that connects is the upstream's", async (t) => {
  const { pass, stats, results, socket, called } = start(t, ["10.0.0.1", "10.0.0.2"]);
  await pass(250);
  socket(0).emit("connect");
  assert.deepEqual(results, [{ socket: socket(0), failures: [] }]);
  const expected = newTargetStats();
  observeConnect(expected, 0.25);
  assert.deepEqual([stats, called()], [expected, ["10.0.0.1"]]);
  assert.deepEqual(socket(0).options, {
    host: "10.0.0.1",
    port: 443,
    allowHalfOpen: true,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: 15_000,
  });
});

test("at most three addresses are tried, never this proxy itself; each failure is counted and remembered", (t) => {
  const { order, stats, results, asked, called, socket } = start(t, ["10.0.0.1", SELF, "10.0.0.3", "10.0.0.4"]);
  socket(0).fail("ECONNREFUSED");
  assert.deepEqual(called(), ["10.0.0.1", "10.0.0.3"]);
  socket(1).fail("ECONNREFUSED");
  const self = { address: SELF, cause: "self", detail: `${SELF} port 443 is this proxy` };
  assert.deepEqual(results, [{ failures: [refused("10.0.0.1"), self, refused("10.0.0.3")] }]);
  const expected = newTargetStats();
  Object.assign(expected.dialErrors, { "connection-refused": 2, self: 1 });
  assert.deepEqual([stats, asked], [expected, ["10.0.0.1 443", `${SELF} 443`, "10.0.0.3 443"]]);
  assert.equal(order.next(["10.0.0.1", SELF, "10.0.0.3", "10.0.0.4"], Date.now())[0], "10.0.0.4");
});

test("an address that connects is not avoided any more", (t) => {
  const { order, results, socket } = start(t, ["10.0.0.1", "10.0.0.2"]);
  order.failed("10.0.0.2", Date.now());
  socket(0).fail("ECONNREFUSED");
  socket(1).emit("connect");
  assert.deepEqual(results, [{ socket: socket(1), failures: [refused("10.0.0.1")] }]);
  assert.deepEqual(order.next(["10.0.0.1", "10.0.0.2"], Date.now()), ["10.0.0.2", "10.0.0.1"]);
});

test("if the process lacks descriptors, no address counts as failed and no other one is tried", (t) => {
  const { stats, results, called, socket } = start(t, ["10.0.0.1", "10.0.0.2"]);
  socket(0).fail("EMFILE");
  assert.deepEqual([results, called()], [[{ failures: [], localLimit: "connect EMFILE" }], ["10.0.0.1"]]);
  assert.deepEqual(stats, newTargetStats());
});

for (const [unresolved, cause] of [
  ["dns-nxdomain", "dns-nxdomain"],
  [undefined, "dns-timeout"],
] as const) {
  test(`without an address the dial fails at once with ${cause}`, (t) => {
    const { stats, results, called } = start(t, [], unresolved);
    const failure = { address: undefined, cause, detail: "no address of the upstream is known" };
    assert.deepEqual([results, called()], [[{ failures: [failure] }], []]);
    assert.equal(stats.dialErrors[cause], 1);
  });
}

test("a dial that is cancelled at any address reports nothing and tries no other address", async (t) => {
  const { pass, results, called, socket, cancel } = start(t, ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
  socket(0).fail("ECONNREFUSED");
  cancel();
  assert.equal(socket(1).destroyed, true);
  socket(1).fail("ECONNREFUSED");
  await pass(10_000, 10_000);
  assert.deepEqual([results, called()], [[], ["10.0.0.1", "10.0.0.2"]]);
});

test("a dial that has already ended can be cancelled", (t) => {
  const { cancel, results } = start(t, []);
  cancel();
  assert.equal(results.length, 1);
});
