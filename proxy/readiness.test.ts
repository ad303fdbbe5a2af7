import assert from "node:assert/strict";
import { test } from "node:test";
import type { ListenerStatus } from "./engine.ts";
import { relayReadiness } from "./readiness.ts";
import type { UpstreamState } from "./upstream.ts";

const BOUND: ListenerStatus = { name: "web:443", target: "web", address: "::", port: 15_443, bound: true };
const UNBOUND: ListenerStatus = { ...BOUND, name: "web:80", bound: false, error: "EADDRINUSE" };
const OK = { state: "ok" } as const;
const FAILING: UpstreamState = {
  target: "web",
  port: 443,
  host: "web.test",
  addresses: ["192.0.2.7"],
  lookupFailure: "dns-timeout",
  phase: { state: "failing", cause: "connection-refused", detail: "connect ECONNREFUSED" },
  since: 0,
};

const STARTED = "[+] started";
const GOING_ON = "[+] not stopping";
const LISTENS = "[+] listener web:443: :: port 15443";
const FAILS = "[i] upstream web:443: failing (connection-refused: connect ECONNREFUSED) since 1970-01-01T00:00:00.000Z";

const cases: [string, ReturnType<typeof relayReadiness>, boolean, string[]][] = [
  ["before the start", relayReadiness(undefined, [], false), false, ["[-] starting", GOING_ON]],
  ["with all listeners bound", relayReadiness([BOUND], [], false), true, [LISTENS, STARTED, GOING_ON]],
  [
    "with one listener unbound",
    relayReadiness([BOUND, UNBOUND], [], false),
    false,
    [LISTENS, "[-] listener web:80: not bound (EADDRINUSE)", STARTED, GOING_ON],
  ],
  [
    "with a listener unbound for no known reason",
    relayReadiness([{ ...BOUND, bound: false }], [], false),
    false,
    ["[-] listener web:443: not bound (unknown)", STARTED, GOING_ON],
  ],
  ["while stopping", relayReadiness([BOUND], [], true), false, [LISTENS, STARTED, "[-] stopping"]],
  ["with nothing to relay", relayReadiness([], [], false), true, [STARTED, GOING_ON]],
  [
    "with an upstream that fails",
    relayReadiness([BOUND], [FAILING], false),
    true,
    [LISTENS, STARTED, GOING_ON, `${FAILS}, web.test: 192.0.2.7, kept despite dns-timeout`],
  ],
  [
    "with an upstream without addresses",
    relayReadiness([], [{ ...FAILING, addresses: [] }], false),
    true,
    [STARTED, GOING_ON, `${FAILS}, web.test: no address`],
  ],
  [
    "with an upstream that can be reached",
    relayReadiness([], [{ ...FAILING, addresses: ["192.0.2.7", "::1"], lookupFailure: undefined, phase: OK }], false),
    true,
    [STARTED, GOING_ON, "[i] upstream web:443: ok since 1970-01-01T00:00:00.000Z, web.test: 192.0.2.7 ::1"],
  ],
];

for (const [title, health, ok, lines] of cases) {
  test(`${title}: ${ok ? "ready" : "not ready"}`, () => {
    assert.deepEqual(health, { ok, text: lines.join("\n") });
  });
}
