import assert from "node:assert/strict";
import { once } from "node:events";
import { syncBuiltinESMExports } from "node:module";
import net, { type AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import type { DialCause } from "../close-causes.ts";
import { newTargetStats } from "../target-stats.ts";
import { CandidateOrder } from "../upstream-candidates.ts";
import { dialUpstream, type UpstreamDialResult } from "./upstream-dial.ts";

// On real sockets: 127.0.0.1 accepts connections, and the other addresses of the loopback refuse them.

const SELF = "127.0.0.66";

async function start(t: TestContext, addresses: readonly string[], unresolved?: DialCause) {
  const server = net.createServer((socket) => socket.destroy()).listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const [order, stats, results] = [new CandidateOrder(), newTargetStats(), [] as UpstreamDialResult[]];
  const asked: string[] = [];
  const ended = Promise.withResolvers<UpstreamDialResult>();
  const options = {
    upstream: { addresses, port, ...(unresolved && { unresolved }) },
    order,
    isSelf: (address: string) => {
      asked.push(address);
      return address === SELF;
    },
    connectTimeoutMs: 60_000,
    keepaliveMs: 15_000,
    stats,
  };
  const dial = () =>
    dialUpstream(options, (result) => {
      result.socket?.destroy();
      results.push(result);
      ended.resolve(result);
    });
  /** The address that was connected, if any, and the failures before it. */
  const outcome = async () => {
    const { socket, failures } = await ended.promise;
    return { connected: socket !== undefined, failures: failures.map(({ address, cause }) => [address, cause]) };
  };
  return { port, order, stats, results, asked, dial, outcome };
}

test("the first address that connects is the upstream's", async (t) => {
  const { stats, asked, dial, outcome } = await start(t, ["127.0.0.1", "127.0.0.2"]);
  dial();
  assert.deepEqual(await outcome(), { connected: true, failures: [] });
  assert.deepEqual([asked, stats.dialErrors], [["127.0.0.1"], newTargetStats().dialErrors]);
  assert.equal(
    stats.connectBuckets.reduce((sum, count) => sum + count),
    1,
  );
});

test("at most three addresses are tried, never this proxy; each failure is counted and remembered", async (t) => {
  const all = ["127.0.0.2", SELF, "127.0.0.3", "127.0.0.1"];
  const { port, order, stats, results, asked, dial, outcome } = await start(t, all);
  dial();
  const failures = [
    ["127.0.0.2", "connection-refused"],
    [SELF, "self"],
    ["127.0.0.3", "connection-refused"],
  ];
  assert.deepEqual(await outcome(), { connected: false, failures });
  assert.equal(results[0]?.failures[1]?.detail, `${SELF} port ${port} is this proxy`);
  const expected = { ...newTargetStats().dialErrors, "connection-refused": 2, self: 1 };
  assert.deepEqual([stats.dialErrors, asked], [expected, all.slice(0, 3)]);
  assert.equal(order.next(all, Date.now())[0], "127.0.0.1");
});

test("an address that connects is not avoided any more", async (t) => {
  const all = ["127.0.0.2", "127.0.0.1"];
  const { order, dial, outcome } = await start(t, all);
  order.failed("127.0.0.1", Date.now());
  dial();
  assert.deepEqual(await outcome(), { connected: true, failures: [["127.0.0.2", "connection-refused"]] });
  // It is the turn of the second address.
  assert.deepEqual(order.next(["127.0.0.9", "127.0.0.1"], Date.now()), ["127.0.0.1", "127.0.0.9"]);
});

test("if the process lacks descriptors, no address counts as failed and no other one is tried", async (t) => {
  const { stats, asked, results, dial, outcome } = await start(t, ["127.0.0.2", "127.0.0.1"]);
  t.mock.method(net, "connect", () => {
    return new net.Socket().destroy(Object.assign(new Error("connect EMFILE"), { code: "EMFILE" }));
  });
  syncBuiltinESMExports();
  dial();
  t.mock.restoreAll();
  syncBuiltinESMExports();
  assert.deepEqual(await outcome(), { connected: false, failures: [] });
  assert.deepEqual([results[0]?.localLimit, asked], ["connect EMFILE", ["127.0.0.2"]]);
  assert.deepEqual(stats, newTargetStats());
});

for (const [unresolved, cause] of [
  ["dns-nxdomain", "dns-nxdomain"],
  [undefined, "dns-timeout"],
] as const) {
  test(`without an address the dial fails at once with ${cause}`, async (t) => {
    const { stats, results, dial } = await start(t, [], unresolved);
    dial()();
    const failure = { address: undefined, cause, detail: "no address of the upstream is known" };
    assert.deepEqual(results, [{ failures: [failure] }]);
    assert.equal(stats.dialErrors[cause], 1);
  });
}

test("a dial that is cancelled reports nothing and tries no other address", async (t) => {
  const cancelled = await start(t, ["127.0.0.2", "127.0.0.1"]);
  cancelled.dial()();
  const later = await start(t, ["127.0.0.2", "127.0.0.1"]);
  later.dial();
  await later.outcome();
  assert.deepEqual([cancelled.results, cancelled.asked], [[], ["127.0.0.2"]]);
});
