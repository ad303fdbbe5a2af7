import assert from "node:assert/strict";
import { test } from "node:test";
import type { ListenerStatus } from "./engine.ts";
import { relayReadiness } from "./readiness.ts";
import type { UpstreamState } from "./upstream.ts";

const BOUND: ListenerStatus = { name: "web:443", target: "web", address: "::", port: 15_443, bound: true };
const UNBOUND: ListenerStatus = { ...BOUND, name: "web:80", bound: false, error: "EADDRINUSE" };
const FAILING: UpstreamState = {
  target: "web",
  port: 443,
  host: "web.test",
  addresses: ["192.0.2.7"],
  lookupFailure: "dns-timeout",
  phase: { state: "failing", cause: "connection-refused", detail: "connect ECONNREFUSED" },
  since: 0,
};

const cases: [string, ReturnType<typeof relayReadiness>, boolean, RegExp][] = [
  ["before the start", relayReadiness(undefined, [], false), false, /^\[-\] starting$/m],
  ["with all listeners bound", relayReadiness([BOUND], [], false), true, /^\[\+\] listener web:443: :: port 15443$/m],
  [
    "with one listener unbound",
    relayReadiness([BOUND, UNBOUND], [], false),
    false,
    /^\[-\] listener web:80: not bound \(EADDRINUSE\)$/m,
  ],
  ["while stopping", relayReadiness([BOUND], [], true), false, /^\[-\] stopping$/m],
  ["with nothing to relay", relayReadiness([], [], false), true, /^\[\+\] started$/m],
  [
    "with an upstream that fails",
    relayReadiness([BOUND], [FAILING], false),
    true,
    /^\[i\] upstream web:443: failing \(connection-refused: .*since 1970-.*web\.test: 192\.0\.2\.7, kept though dns-timeout$/m,
  ],
  [
    "with an upstream without addresses",
    relayReadiness([BOUND], [{ ...FAILING, addresses: [] }], false),
    true,
    /web\.test: no address$/m,
  ],
];

for (const [title, health, ok, text] of cases) {
  test(`${title}: ${ok ? "ready" : "not ready"}`, () => {
    assert.equal(health.ok, ok);
    assert.match(health.text, text);
  });
}
