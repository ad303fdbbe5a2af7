import assert from "node:assert/strict";
import { test } from "node:test";
import { hasCode } from "#lib/errors/errors.ts";
import { type Answer, recordingLibc } from "#test/fakes/recording-libc.ts";
import { addressBytes } from "../address.ts";
import type { ListenerSpec, SelfEndpoints } from "../engine.ts";
import { ERRNO, encodeSockaddr } from "./abi.ts";
import { newCounters } from "./counters.ts";
import { DialFailures } from "./dial-failures.ts";
import { ListenerSockets } from "./listener-sockets.ts";
import { LOCAL_ADDRESS_OFFSET } from "./memory.ts";

const NOBODY: SelfEndpoints = { interfaceAddresses: [], frontEndpoints: [] };

function specOf(change: Partial<ListenerSpec> = {}): ListenerSpec {
  const upstream = { addresses: ["10.0.0.1", "2001:db8::1"], port: 8443 };
  const named = { name: "web:443", target: "web", address: "127.0.0.1", port: 0, declaredPort: 443 };
  return { ...named, protocol: "v2", tlvs: { crc32c: true, uniqueId: false }, upstream, ...change };
}

const sockaddr = (address: string, port: number) => encodeSockaddr(addressBytes(address) ?? new Uint8Array(), port);

/** getsockname returns this address with port 50,000. Undefined: it fails. */
const bindsTo =
  (address: string | undefined): Answer =>
  (call, _, { bytes }) => {
    if (call !== "getsockname") return undefined;
    if (address === undefined) return -1;
    bytes.set(sockaddr(address, 50_000), LOCAL_ADDRESS_OFFSET);
    return 0;
  };

function start(spec = specOf(), answer: Answer = bindsTo("127.0.0.1")) {
  const { libc, taken } = recordingLibc(answer);
  const sockets = new ListenerSockets(libc, spec);
  const worker = (index: number, self = NOBODY) =>
    sockets.workerListener(index, self, [sockets.status()], newCounters());
  return { sockets, taken, worker };
}

test("a new listener is reported as not bound, and no worker gets it", () => {
  const { sockets, worker } = start();
  const unbound = { name: "web:443", target: "web", address: "127.0.0.1", port: 0, bound: false };
  assert.deepEqual(sockets.status(), { ...unbound, error: "not bound yet" });
  assert.equal(worker(0), undefined);
  assert.equal(sockets.isBoundAs(specOf()), false);
});

test("a bound listener has the port that the kernel chose, and one socket per worker", () => {
  const { sockets, taken, worker } = start();
  sockets.bind(2, 15_000);
  assert.deepEqual(sockets.status(), {
    name: "web:443",
    target: "web",
    address: "127.0.0.1",
    port: 50_000,
    bound: true,
  });
  assert.ok(taken().includes("setsockopt 100 6 4 = 15"), "keepalive");
  assert.deepEqual([worker(0)?.fd, worker(1)?.fd, worker(2)], [100, 101, undefined]);
  assert.deepEqual(
    [{}, { name: "other" }, { address: "::" }, { port: 443 }].map((change) => sockets.isBoundAs(specOf(change))),
    [true, true, false, false],
  );
});

test("a listener that cannot be bound reports the reason in its status and in the error", () => {
  const { sockets, worker } = start(specOf({ port: 443 }), (call) =>
    call === "bind" ? -ERRNO.EADDRNOTAVAIL : undefined,
  );
  assert.throws(
    () => sockets.bind(1, 0),
    (error: Error) => {
      assert.equal(error.message, "cannot bind web:443 to 127.0.0.1 port 443");
      assert.match(String(error.cause), /bind EADDRNOTAVAIL/);
      return hasCode(error, "listen-failed");
    },
  );
  const { bound, error, port } = sockets.status();
  assert.deepEqual([bound, error, port, worker(0)], [false, "bind EADDRNOTAVAIL", 443, undefined]);
});

test("a listener whose local address cannot be read counts as unbound", () => {
  const { sockets, worker } = start(specOf(), bindsTo(undefined));
  sockets.bind(1, 0);
  assert.deepEqual([sockets.status().bound, worker(0)], [false, undefined]);
});

test("close closes each socket, and only once", () => {
  const { sockets, taken, worker } = start();
  sockets.bind(2, 0);
  taken();
  sockets.close();
  sockets.close();
  assert.deepEqual(taken(), ["close 100", "close 101"]);
  const { bound, error } = sockets.status();
  assert.deepEqual([bound, error, worker(0)], [false, "closed", undefined]);
});

test("a worker gets the spec, with a sockaddr for each address that is an IP literal", () => {
  const { sockets, worker } = start();
  sockets.bind(1, 0);
  const counters = newCounters();
  const upstream = {
    addresses: ["10.0.0.1", "not an address", "2001:db8::1"],
    port: 8443,
    unresolved: "dns-timeout" as const,
  };
  sockets.spec = specOf({ upstream });
  const { dialFailures, ...listener } = sockets.workerListener(0, NOBODY, [], counters) ?? assert.fail();
  assert.deepEqual(listener, {
    name: "web:443",
    target: "web",
    fd: 100,
    localAddress: Uint8Array.of(127, 0, 0, 1),
    declaredPort: 443,
    protocol: "v2",
    refusesClientHeaders: false,
    tlvs: { crc32c: true, uniqueId: false },
    port: 8443,
    unresolved: "dns-timeout",
    addresses: ["10.0.0.1", "2001:db8::1"].map((text) => ({ text, sockaddr: sockaddr(text, 8443), isSelf: false })),
    counters,
  });
  assert.equal(listener.counters, counters);
  assert.equal(worker(0)?.dialFailures, dialFailures);
});

test("a worker refuses clients with a header if the spec requires it", () => {
  const { sockets, worker } = start(specOf({ refusesClientHeaders: true }));
  sockets.bind(1, 0);
  assert.equal(worker(0)?.refusesClientHeaders, true);
});

test("an address that leads to this proxy is marked", () => {
  const { sockets, worker } = start(
    specOf({ upstream: { addresses: ["127.0.0.1", "10.0.0.9", "10.0.0.1"], port: 50_000 } }),
  );
  sockets.bind(1, 0);
  const self = { interfaceAddresses: [], frontEndpoints: [{ address: "10.0.0.9", port: 50_000 }] };
  assert.deepEqual(
    worker(0, self)?.addresses.map(({ isSelf }) => isSelf),
    [true, true, false],
  );
});

for (const [address, local] of [
  ["0.0.0.0", undefined],
  ["::", undefined],
  ["10.0.0.7", Uint8Array.of(10, 0, 0, 7)],
  ["1.0.0.0", Uint8Array.of(1, 0, 0, 0)],
] as const) {
  test(`clients of a listener on ${address} connect to ${local === undefined ? "any address" : "that address"}`, () => {
    const { sockets, worker } = start(specOf({ address }), bindsTo(address));
    sockets.bind(1, 0);
    assert.deepEqual(worker(0)?.localAddress, local);
  });
}

test("workers share address failures until the list changes; the result of the last dial is kept", () => {
  const { sockets, worker } = start();
  sockets.bind(2, 0);
  const first = worker(0)?.dialFailures ?? assert.fail();
  assert.equal(worker(1)?.dialFailures, first);
  const failures = new DialFailures(first);
  failures.recordOutcome(true);
  sockets.spec = specOf({ upstream: { addresses: ["10.0.0.1", "2001:db8::1"], port: 443 } });
  assert.equal(worker(0)?.dialFailures, first, "the same addresses");
  sockets.spec = specOf({ upstream: { addresses: ["2001:db8::1", "10.0.0.1"], port: 443 } });
  const second = worker(0)?.dialFailures ?? assert.fail();
  assert.notEqual(second, first);
  assert.equal(worker(0)?.dialFailures, second);
  assert.equal(new DialFailures(second).recordOutcome(false), true);
  sockets.spec = specOf({ upstream: { addresses: [], port: 443 } });
  assert.equal(new DialFailures(worker(0)?.dialFailures ?? assert.fail()).recordOutcome(true), false);
});
