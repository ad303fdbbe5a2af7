import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { addressBytes } from "../address.ts";
import { newTargetStats, observeConnect } from "../target-stats.ts";
import { encodeSockaddr } from "./abi.ts";
import { newCounters, readCounters } from "./counters.ts";
import { newDialFailures } from "./dial-failures.ts";
import { ListenerState } from "./listener-state.ts";
import type { WorkerListener } from "./worker-messages.ts";

function specOf(...texts: string[]): WorkerListener {
  const addresses = texts.map((text) => {
    return { text, sockaddr: encodeSockaddr(addressBytes(text) ?? new Uint8Array(), 443), isSelf: false };
  });
  const named = { name: "web:443", target: "web", fd: 5, localAddress: undefined, declaredPort: 443 };
  const rest = {
    protocol: "v1",
    refusesClientHeaders: false,
    tlvs: undefined,
    addresses,
    port: 443,
    unresolved: undefined,
  } as const;
  return { ...named, ...rest, counters: newCounters(), dialFailures: newDialFailures() };
}

function start(t: TestContext, ...texts: string[]) {
  t.mock.timers.enable({ apis: ["Date"], now: 1_700_000_000_000 });
  const state = new ListenerState(specOf(...texts));
  const order = () =>
    state
      .candidates()
      .map(({ text }) => text.at(-1))
      .join("");
  return { state, order };
}

test("addresses are tried round robin; a failed address is last for ten seconds or until it connects", (t) => {
  const { state, order } = start(t, "10.0.0.1", "10.0.0.2", "10.0.0.3");
  assert.deepEqual([order(), order(), order(), order()], ["123", "231", "312", "123"]);
  state.dialFailed("10.0.0.1", "timeout");
  assert.deepEqual([order(), order()], ["231", "321"]);
  t.mock.timers.tick(10_000);
  assert.equal(order(), "123");
  state.dialFailed("10.0.0.2", "timeout");
  state.connected("10.0.0.2", 0.5);
  assert.equal(order(), "231");
});

test("lists of one or no address stay unchanged, and an update replaces the addresses", (t) => {
  const { state, order } = start(t, "10.0.0.1");
  assert.deepEqual([order(), order()], ["1", "1"]);
  const next = specOf("10.0.0.2", "10.0.0.3");
  state.update(next);
  assert.equal(state.spec, next);
  assert.equal(order(), "23");
  state.update(specOf());
  assert.equal(order(), "");
});

test("dials are counted by cause, even if there was no address", (t) => {
  const { state } = start(t, "10.0.0.1");
  state.dialFailed("10.0.0.1", "timeout");
  state.dialFailed(undefined, "dns-timeout");
  state.connected("10.0.0.1", 0.5);
  const expected = newTargetStats();
  Object.assign(expected.dialErrors, { timeout: 1, "dns-timeout": 1 });
  observeConnect(expected, 0.5);
  assert.deepEqual([readCounters([state.spec.counters]), state.open], [expected, 0]);
});

test("after a failed early write 8 connections skip it, then twice as many, up to 1,024; a success resets it", (t) => {
  const { state } = start(t, "10.0.0.1");
  const skipped = () => {
    let count = 0;
    while (!state.shouldWriteEarly()) count += 1;
    return count;
  };
  assert.equal(skipped(), 0);
  const counts: number[] = [];
  for (let failures = 0; failures < 9; failures += 1) {
    state.recordEarlyWrite(false);
    counts.push(skipped());
  }
  assert.deepEqual(counts, [8, 16, 32, 64, 128, 256, 512, 1_024, 1_024]);
  state.recordEarlyWrite(true);
  assert.equal(skipped(), 0);
  state.recordEarlyWrite(false);
  assert.equal(skipped(), 8);
});
