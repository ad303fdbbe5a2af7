import assert from "node:assert/strict";
import { test } from "node:test";
import type { Listener } from "#lib/documents/listeners.ts";
import { FakeClock, LineLog } from "#test/fakes/clock.ts";
import type { DialCause } from "./close-causes.ts";
import type { DialReport } from "./engine.ts";
import { listenerName, Upstreams } from "./upstream.ts";

const NXDOMAIN = Object.assign(new Error("getaddrinfo ENOTFOUND"), { code: "ENOTFOUND" });

function listener(target: string, port: number, upstream: string): Listener {
  return { target, port, listenPort: 15_000 + port, upstream, upstreamPort: port, protocol: "v1" };
}

const WEB = listener("web", 443, "web.test");
const PLAIN = listener("web", 80, "web.test");
const OTHER = listener("other", 443, "other.test");

function failure(of: Listener, cause: DialCause): DialReport {
  // Without a DNS answer there is no address.
  const address = cause.startsWith("dns") ? undefined : "192.0.2.7";
  return { listener: listenerName(of), connected: false, failures: [{ address, cause, detail: cause }] };
}

function success(of: Listener): DialReport {
  return { listener: listenerName(of), connected: true, failures: [] };
}

function setUp(names: Record<string, readonly string[]>) {
  const [clock, log] = [new FakeClock(), new LineLog()];
  const asked: string[] = [];
  let changes = 0;
  const upstreams = new Upstreams({
    clock,
    log,
    intervalMs: 30_000,
    lookup: async (host) => {
      asked.push(host);
      const answer = names[host];
      if (answer === undefined) throw NXDOMAIN;
      return answer;
    },
  });
  upstreams.subscribe(() => {
    changes += 1;
  });
  const phase = (of: Listener) =>
    upstreams.states().find(({ target, port }) => target === of.target && port === of.port)?.phase;
  return { clock, log, asked, upstreams, names, phase, changes: () => changes };
}

test("the ports of a target share one lookup, and each dials its own port", async () => {
  const { upstreams, asked } = setUp({ "web.test": ["192.0.2.7", "192.0.2.8"] });
  await upstreams.setListeners([WEB, PLAIN]);
  assert.deepEqual(asked, ["web.test"]);
  assert.deepEqual(upstreams.spec(WEB), { addresses: ["192.0.2.7", "192.0.2.8"], port: 443 });
  assert.deepEqual(upstreams.spec(PLAIN), { addresses: ["192.0.2.7", "192.0.2.8"], port: 80 });
  upstreams.stop();
});

test("a name without addresses fails all its ports before any dial, and does not affect other targets", async () => {
  const { upstreams, phase, log } = setUp({ "other.test": ["192.0.2.9"] });
  await upstreams.setListeners([WEB, PLAIN, OTHER]);
  assert.deepEqual(upstreams.spec(WEB), { addresses: [], port: 443, unresolved: "dns-nxdomain" });
  for (const each of [WEB, PLAIN]) {
    const found = phase(each);
    assert.deepEqual([found?.state, found?.state === "failing" && found.cause], ["failing", "dns-nxdomain"]);
  }
  assert.equal(phase(OTHER)?.state, "unknown");
  assert.equal(log.messages.length, 2);
  upstreams.stop();
});

test("when the name resolves again, the listener's spec changes, and the result of earlier dials applies", async () => {
  const { upstreams, names, phase, clock, changes } = setUp({ "web.test": ["192.0.2.7"] });
  await upstreams.setListeners([WEB]);
  upstreams.report(success(WEB));
  delete names["web.test"];
  await clock.pass(300_000);
  assert.equal(phase(WEB)?.state, "failing");
  const before = changes();
  // The engine's report of a client without an address must not replace the result of earlier dials.
  upstreams.report(failure(WEB, "dns-nxdomain"));
  names["web.test"] = ["192.0.2.8"];
  await clock.pass(30_000);
  assert.equal(changes(), before + 1);
  assert.deepEqual([upstreams.spec(WEB)?.addresses, phase(WEB)?.state], [["192.0.2.8"], "ok"]);
  upstreams.stop();
});

test("a failed dial causes an early lookup, even if another address then worked", async () => {
  const { upstreams, asked, clock } = setUp({ "web.test": ["192.0.2.7", "192.0.2.8"] });
  await upstreams.setListeners([WEB]);
  await clock.pass(2000);
  upstreams.report(failure(WEB, "connection-refused"));
  await clock.pass(0);
  assert.equal(asked.length, 2);
  await clock.pass(2000);
  upstreams.report({ ...failure(WEB, "timeout"), connected: true });
  await clock.pass(0);
  assert.equal(asked.length, 3);
  upstreams.stop();
});

test("failure and recovery are per port, with one log line each", async () => {
  const { upstreams, phase, log, clock } = setUp({ "web.test": ["192.0.2.7"] });
  await upstreams.setListeners([WEB, PLAIN]);
  for (let times = 0; times < 10; times += 1) upstreams.report(failure(PLAIN, "connection-refused"));
  upstreams.report(success(WEB));
  assert.deepEqual([phase(PLAIN)?.state, phase(WEB)?.state, log.messages.length], ["failing", "ok", 1]);
  await clock.pass(20_000);
  upstreams.report(success(PLAIN));
  assert.deepEqual([phase(PLAIN)?.state, log.messages.length], ["ok", 2]);
  upstreams.stop();
});

test("changed listeners: kept ones keep their state, names of removed ones are no longer looked up", async () => {
  const { upstreams, phase, asked, clock } = setUp({ "web.test": ["192.0.2.7"], "other.test": ["192.0.2.9"] });
  await upstreams.setListeners([WEB, OTHER]);
  upstreams.report(success(WEB));
  await upstreams.setListeners([WEB, PLAIN]);
  assert.deepEqual([phase(WEB)?.state, phase(PLAIN)?.state, phase(OTHER)], ["ok", "unknown", undefined]);
  asked.length = 0;
  await clock.pass(100_000);
  assert.ok(asked.length >= 3 && asked.every((host) => host === "web.test"));
  upstreams.report(failure(OTHER, "timeout"));
  await upstreams.setListeners([{ ...WEB, upstream: "other.test" }]);
  assert.deepEqual(
    [phase(WEB)?.state, upstreams.spec({ ...WEB, upstream: "other.test" })?.addresses],
    ["unknown", ["192.0.2.9"]],
  );
  upstreams.stop();
  assert.equal(clock.pending, 0);
});

test("the name of a discovered target is never looked up; its new addresses apply at once", async () => {
  const { upstreams, phase, asked, clock } = setUp({ "web.test": ["192.0.2.66"] });
  const found: Listener = { ...WEB, upstreamIPs: ["198.51.100.4"] };
  await upstreams.setListeners([found]);
  assert.deepEqual(upstreams.spec(found), { addresses: ["198.51.100.4"], port: 443 });
  upstreams.report(failure(found, "connection-refused"));
  await clock.pass(100_000);
  const moved: Listener = { ...WEB, upstreamIPs: ["198.51.100.5", "2001:db8::5"] };
  const lookups = upstreams.setListeners([moved]);
  assert.deepEqual(upstreams.spec(moved)?.addresses, moved.upstreamIPs);
  assert.equal(phase(moved)?.state, "unknown");
  await lookups;
  await clock.pass(100_000);
  assert.deepEqual(asked, []);
  await upstreams.setListeners([moved, PLAIN]);
  assert.deepEqual([asked, upstreams.spec(PLAIN)?.addresses], [["web.test"], ["192.0.2.66"]]);
  upstreams.stop();
});
