import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock, LineLog } from "#test/fakes/clock.ts";
import { HostResolver, LOOKUP_TIMEOUT_MS, MIN_INTERVAL_MS, NXDOMAIN_HOLD_MS, systemLookup } from "./host-resolver.ts";

const INTERVAL_MS = 30_000;
const NXDOMAIN = Object.assign(new Error("getaddrinfo ENOTFOUND"), { code: "ENOTFOUND" });
const AGAIN = Object.assign(new Error("getaddrinfo EAI_AGAIN"), { code: "EAI_AGAIN" });

type Answer = readonly string[] | Error | "never";

/** A name server that returns `answer` until it is changed, and counts the lookups. */
class NameServer {
  answer: Answer;
  asked = 0;

  constructor(answer: Answer) {
    this.answer = answer;
  }

  readonly lookup = async (): Promise<readonly string[]> => {
    this.asked += 1;
    if (this.answer === "never") return new Promise(() => {});
    if (this.answer instanceof Error) throw this.answer;
    return this.answer;
  };
}

function setUp(answer: Answer, host = "ingress.test", intervalMs = INTERVAL_MS) {
  const clock = new FakeClock();
  const log = new LineLog();
  const server = new NameServer(answer);
  let changes = 0;
  const onChange = () => {
    changes += 1;
  };
  const options = { lookup: server.lookup, clock, log, intervalMs, onChange };
  return { clock, log, server, resolver: new HostResolver(host, options), changes: () => changes };
}

test("an IP literal is its own address, without a lookup", async () => {
  const { resolver, server, clock } = setUp(NXDOMAIN, "192.0.2.7");
  await resolver.firstLookup;
  resolver.refresh();
  await clock.pass(10 * INTERVAL_MS);
  assert.deepEqual([resolver.addresses, resolver.failure, server.asked], [["192.0.2.7"], undefined, 0]);
});

test("the name is looked up again at the interval, and a new address is reported", async () => {
  const { resolver, server, clock, changes } = setUp(["192.0.2.7"]);
  await resolver.firstLookup;
  assert.deepEqual([resolver.addresses, changes()], [["192.0.2.7"], 1]);
  server.answer = ["192.0.2.8"];
  await clock.pass(INTERVAL_MS - 1);
  assert.deepEqual(resolver.addresses, ["192.0.2.7"]);
  await clock.pass(1);
  assert.deepEqual([resolver.addresses, changes(), server.asked], [["192.0.2.8"], 2, 2]);
});

test("the same addresses in another order are not a change", async () => {
  const { resolver, server, clock, changes } = setUp(["192.0.2.7", "192.0.2.8"]);
  await resolver.firstLookup;
  server.answer = ["192.0.2.8", "192.0.2.7"];
  await clock.pass(INTERVAL_MS);
  assert.deepEqual([server.asked, changes(), resolver.addresses], [2, 1, ["192.0.2.7", "192.0.2.8"]]);
});

test("a failed dial makes the next lookup earlier, but at least a second after the last one", async () => {
  const { resolver, server, clock } = setUp(["192.0.2.7"]);
  await resolver.firstLookup;
  for (let times = 0; times < 5; times += 1) resolver.refresh();
  await clock.pass(MIN_INTERVAL_MS - 1);
  assert.equal(server.asked, 1);
  await clock.pass(1);
  assert.equal(server.asked, 2);
  await clock.pass(5000);
  resolver.refresh();
  await clock.pass(0);
  assert.equal(server.asked, 3);
});

for (const [title, answer, cause] of [
  ["no answer", "never", "dns-timeout"],
  ["a temporary failure", AGAIN, "dns-timeout"],
  ["no such name", NXDOMAIN, "dns-nxdomain"],
  ["an empty answer", [], "dns-nxdomain"],
] as const) {
  test(`${title} is ${cause}; the last addresses stay; failure and recovery are logged once each`, async () => {
    const { resolver, server, clock, log, changes } = setUp(["192.0.2.7"]);
    await resolver.firstLookup;
    server.answer = answer;
    await clock.pass(INTERVAL_MS + 60_000);
    assert.deepEqual([resolver.addresses, resolver.failure, changes()], [["192.0.2.7"], cause, 1]);
    assert.equal(log.messages.length, 1);
    assert.match(log.messages[0] ?? "", /last addresses stay/);
    if (answer === "never") return;
    server.answer = ["192.0.2.7"];
    await clock.pass(INTERVAL_MS);
    assert.equal(resolver.failure, undefined);
    assert.match(log.messages[1] ?? "", /resolves again/);
  });
}

test("failed lookups are retried after 1, 2, 4, 8, 16 seconds, then at the interval, until one succeeds", async () => {
  const { resolver, server, clock } = setUp(NXDOMAIN);
  await resolver.firstLookup;
  const start = clock.now();
  const lookups = async () => {
    const before = server.asked;
    while (server.asked === before) await clock.pass(1_000);
    return (clock.now() - start) / 1_000;
  };
  const times: number[] = [];
  for (let count = 0; count < 7; count += 1) times.push(await lookups());
  assert.deepEqual(times, [1, 3, 7, 15, 31, 61, 91]);
  server.answer = ["192.0.2.7"];
  assert.equal(await lookups(), 121);
  server.answer = AGAIN;
  assert.deepEqual([await lookups(), await lookups(), await lookups()], [151, 152, 154]);
});

for (const [intervalMs, isGone] of [
  [57_000, true],
  [56_999, false],
] as const) {
  test(`after ${intervalMs + 63_000} ms without a name its addresses are ${isGone ? "removed" : "kept"}`, async () => {
    const { resolver, server, clock, log, changes } = setUp(["192.0.2.7"], "ingress.test", intervalMs);
    await resolver.firstLookup;
    server.answer = NXDOMAIN;
    // The name is looked up again 1, 3, 7, 15, 31 and 63 seconds after the first NXDOMAIN, and then at the interval.
    await clock.pass(intervalMs + 63_000 + intervalMs);
    assert.equal(server.asked, 9);
    assert.deepEqual([resolver.addresses, changes()], isGone ? [[], 2] : [["192.0.2.7"], 1]);
    const { host, cause } = { host: "ingress.test", cause: "dns-nxdomain" };
    assert.deepEqual(
      log.lines.map(({ level, fields }) => [level, fields]),
      [
        ["warn", { host, cause, addresses: ["192.0.2.7"], err: "getaddrinfo ENOTFOUND" }],
        ...(isGone ? [["warn", { host, cause }]] : []),
      ],
    );
  });
}

test("systemLookup returns all addresses", async () => {
  assert.deepEqual(await systemLookup("127.0.0.1"), ["127.0.0.1"]);
});

test("an answer that comes after stop changes nothing", async () => {
  for (const answer of [["192.0.2.7"], NXDOMAIN]) {
    const { resolver, clock, changes } = setUp(answer);
    resolver.stop();
    await resolver.firstLookup;
    assert.deepEqual([resolver.addresses, resolver.failure, changes(), clock.pending], [[], undefined, 0, 0]);
  }
});

test("a failed dial during a lookup does not start another lookup", async () => {
  const { resolver, server, clock } = setUp("never");
  resolver.refresh();
  await clock.pass(LOOKUP_TIMEOUT_MS - 1);
  assert.deepEqual([server.asked, clock.pending], [1, 1]);
});

test("a name that never had an address reports the cause, and is retried at growing intervals", async () => {
  const { resolver, server, clock, changes } = setUp(NXDOMAIN);
  await resolver.firstLookup;
  assert.deepEqual([resolver.addresses, resolver.failure, changes()], [[], "dns-nxdomain", 1]);
  await clock.pass(60_000);
  assert.ok(server.asked >= 5 && server.asked <= 8, `asked ${server.asked} times in a minute`);
  server.answer = ["192.0.2.7"];
  await clock.pass(INTERVAL_MS);
  assert.deepEqual([resolver.addresses, resolver.failure], [["192.0.2.7"], undefined]);
});

test("a name that is missing for two minutes loses its addresses; a name without an answer keeps them", async () => {
  const gone = setUp(["192.0.2.7"]);
  await gone.resolver.firstLookup;
  gone.server.answer = NXDOMAIN;
  await gone.clock.pass(INTERVAL_MS + NXDOMAIN_HOLD_MS - 1000);
  assert.deepEqual(gone.resolver.addresses, ["192.0.2.7"]);
  await gone.clock.pass(INTERVAL_MS + 2000);
  assert.deepEqual([gone.resolver.addresses, gone.changes()], [[], 2]);

  const silent = setUp(["192.0.2.7"]);
  await silent.resolver.firstLookup;
  silent.server.answer = AGAIN;
  await silent.clock.pass(100 * NXDOMAIN_HOLD_MS);
  assert.deepEqual(silent.resolver.addresses, ["192.0.2.7"]);
});

test("an answer restarts the two minutes after which a missing name loses its addresses", async () => {
  const { resolver, server, clock } = setUp(["192.0.2.7"]);
  await resolver.firstLookup;
  for (let round = 0; round < 4; round += 1) {
    server.answer = NXDOMAIN;
    await clock.pass(NXDOMAIN_HOLD_MS - INTERVAL_MS);
    server.answer = ["192.0.2.7"];
    await clock.pass(INTERVAL_MS);
  }
  assert.deepEqual(resolver.addresses, ["192.0.2.7"]);
});

test("a lookup that hangs fails after five seconds and is not started a second time", async () => {
  const { resolver, server, clock } = setUp("never");
  let answered = false;
  void resolver.firstLookup.then(() => {
    answered = true;
  });
  await clock.pass(LOOKUP_TIMEOUT_MS - 1);
  assert.equal(answered, false);
  await clock.pass(1);
  assert.deepEqual([answered, resolver.failure], [true, "dns-timeout"]);
  await clock.pass(10 * INTERVAL_MS);
  assert.equal(server.asked, 1);
});

test("after stop there are no more lookups", async () => {
  const { resolver, server, clock } = setUp(["192.0.2.7"]);
  await resolver.firstLookup;
  resolver.stop();
  resolver.refresh();
  await clock.pass(10 * INTERVAL_MS);
  assert.deepEqual([server.asked, clock.pending], [1, 0]);
});
