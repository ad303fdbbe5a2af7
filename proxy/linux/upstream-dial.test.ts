import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type Answer, recordingLibc } from "#test/fakes/recording-libc.ts";
import { addressBytes } from "../address.ts";
import type { DialCause } from "../close-causes.ts";
import { newTargetStats, observeConnect } from "../target-stats.ts";
import { ERRNO, encodeSockaddr } from "./abi.ts";
import { newCounters, readCounters } from "./counters.ts";
import { newDialFailures } from "./dial-failures.ts";
import { ListenerState } from "./listener-state.ts";
import { DIAL_LOCAL_LIMIT, UpstreamDial } from "./upstream-dial.ts";

const FAILED = -1;
const SELF = "10.0.0.66";

function start(t: TestContext, texts: readonly string[], answer: Answer = () => undefined, unresolved?: DialCause) {
  let now = 5_000;
  t.mock.method(performance, "now", () => now);
  const addresses = texts.map((text) => {
    return { text, sockaddr: encodeSockaddr(addressBytes(text) ?? new Uint8Array(), 443), isSelf: text === SELF };
  });
  const listener = new ListenerState({
    name: "web:443",
    target: "web",
    fd: 5,
    localAddress: undefined,
    declaredPort: 443,
    protocol: "v1",
    refusesClientHeaders: false,
    tlvs: undefined,
    addresses,
    port: 8443,
    unresolved,
    counters: newCounters(),
    dialFailures: newDialFailures(),
  });
  const { libc, taken } = recordingLibc(answer);
  const files = { areOut: false };
  const dial = new UpstreamDial(libc, listener, () => files.areOut);
  const errors = () => {
    const { dialErrors } = readCounters([listener.spec.counters]);
    return Object.fromEntries(Object.entries(dialErrors).filter(([, count]) => count > 0));
  };
  const pass = (ms: number) => {
    now += ms;
  };
  return { dial, listener, files, errors, taken, pass };
}

const connecting =
  (errno: number): Answer =>
  (call) =>
    call === "connect" ? -errno : undefined;

for (const errno of [0, ERRNO.EINPROGRESS]) {
  test(`a dial returns the descriptor of a connect that returned ${errno}, and records the time to connect`, (t) => {
    const { dial, listener, errors, pass, taken } = start(t, ["10.0.0.1"], connecting(errno));
    assert.equal(dial.connectNext(), 100);
    assert.deepEqual(
      taken().map((call) => call.split(" ")[0]),
      ["socket", "connect"],
    );
    pass(250);
    dial.connected();
    const expected = newTargetStats();
    observeConnect(expected, 0.25);
    assert.deepEqual(readCounters([listener.spec.counters]), expected);
    assert.deepEqual([dial.failures, dial.localLimit, errors()], [[], "", {}]);
  });
}

test("a descriptor that other workers need is closed, as if no descriptor were left", (t) => {
  const { dial, files, errors, taken } = start(t, ["10.0.0.1", "10.0.0.2"]);
  files.areOut = true;
  assert.equal(dial.connectNext(), DIAL_LOCAL_LIMIT);
  assert.deepEqual(
    taken().map((call) => call.split(" ")[0]),
    ["socket", "close"],
  );
  assert.deepEqual([dial.failures, dial.localLimit, errors()], [[], "socket EMFILE", {}]);
});

test("at most three addresses are dialled, and never this proxy itself", (t) => {
  const { dial, errors, taken } = start(t, ["10.0.0.1", SELF, "10.0.0.3", "10.0.0.4"], connecting(111));
  assert.equal(dial.connectNext(), FAILED);
  assert.equal(dial.connectNext(), FAILED);
  assert.deepEqual(dial.failures, [
    { address: "10.0.0.1", cause: "connection-refused", detail: "connect ECONNREFUSED 10.0.0.1:8443" },
    { address: SELF, cause: "self", detail: `${SELF} port 8443 is this proxy` },
    { address: "10.0.0.3", cause: "connection-refused", detail: "connect ECONNREFUSED 10.0.0.3:8443" },
  ]);
  assert.deepEqual(errors(), { "connection-refused": 2, self: 1 });
  assert.deepEqual(
    taken().filter((call) => call.startsWith("close")),
    ["close 100", "close 101"],
  );
});

test("an address that fails later or does not answer is recorded, and the next one is dialled", (t) => {
  const { dial, errors } = start(t, ["10.0.0.1", "10.0.0.2", "10.0.0.3"], connecting(ERRNO.EINPROGRESS));
  assert.equal(dial.connectNext(), 100);
  dial.connectFailed(113);
  assert.equal(dial.connectNext(), 101);
  assert.equal(dial.hasNext, true);
  dial.connectTimedOut(5_000);
  assert.equal(dial.connectNext(), 102);
  assert.equal(dial.hasNext, false);
  dial.connected();
  assert.deepEqual(dial.failures, [
    { address: "10.0.0.1", cause: "unreachable", detail: "connect EHOSTUNREACH 10.0.0.1:8443" },
    { address: "10.0.0.2", cause: "timeout", detail: "no answer from 10.0.0.2:8443 in 1500 ms" },
  ]);
  assert.deepEqual(errors(), { unreachable: 1, timeout: 1 });
});

test("if the process lacks descriptors or memory, no address counts as failed and no other one is tried", (t) => {
  const socket = start(t, ["10.0.0.1", "10.0.0.2"], (call) => (call === "socket" ? -ERRNO.EMFILE : undefined));
  assert.equal(socket.dial.connectNext(), DIAL_LOCAL_LIMIT);
  const connect = start(t, ["10.0.0.1", "10.0.0.2"], connecting(ERRNO.ENOBUFS));
  assert.equal(connect.dial.connectNext(), DIAL_LOCAL_LIMIT);
  const late = start(t, ["10.0.0.1"]);
  late.dial.connectNext();
  late.dial.connectFailed(ERRNO.ENOMEM);
  assert.deepEqual(
    [socket, connect, late].map(({ dial, errors }) => [dial.localLimit, dial.failures, errors()]),
    [
      ["socket EMFILE", [], {}],
      ["connect ENOBUFS", [], {}],
      ["connect ENOMEM", [], {}],
    ],
  );
  assert.deepEqual(connect.taken().at(-1), "close 100");
});

test("a socket that cannot be opened for an address's family is a failure of this address", (t) => {
  const { dial, taken } = start(t, ["::1", "10.0.0.1"], (call, [family]) =>
    call === "socket" && family === 10 ? -ERRNO.EAFNOSUPPORT : undefined,
  );
  assert.equal(dial.connectNext(), 100);
  assert.deepEqual(dial.failures, [{ address: "::1", cause: "unreachable", detail: "socket EAFNOSUPPORT [::1]:8443" }]);
  assert.equal(taken().filter((call) => call.startsWith("connect")).length, 1);
});

for (const [unresolved, cause] of [
  ["dns-nxdomain", "dns-nxdomain"],
  [undefined, "dns-timeout"],
] as const) {
  test(`without an address the dial fails with ${cause}`, (t) => {
    const { dial, errors, taken } = start(t, [], undefined, unresolved);
    assert.deepEqual([dial.connectNext(), taken()], [FAILED, []]);
    const detail = "no address of the upstream is known";
    assert.deepEqual([dial.failures, errors()], [[{ address: undefined, cause, detail }], { [cause]: 1 }]);
    dial.connected();
    dial.connectFailed(111);
    assert.equal(dial.failures.length, 1, "nobody was called");
  });
}
