import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { callsIn, readLog } from "./ingress-log.ts";

/** nginx writes the received bytes unchanged, so a broken request covers several lines. */
const broken = (request: string, client: string) =>
  `2026/11/24 08:00:00 [error] 7#7: *11 broken header: "${request}" while reading PROXY protocol, client: ` +
  `${client}, server: 0.0.0.0:8000\n`;
const CHALLENGE = "GET /.well-known/acme-challenge/abc HTTP/1.1\r\nHost: app.example.com\r\n\r\n";

describe("a log", () => {
  test("of nginx: broken headers over several lines, one of them a self-check, and an answered request", () => {
    const log =
      broken("GET / HTTP/1.1\r\nHost: app.example.com\r\nX-Far: 192.0.2.1\r\n\r\n", "203.0.113.7") +
      broken(CHALLENGE, "203.0.113.1") +
      `203.0.113.9 - - [24/Nov/2026:08:00:00 +0000] "GET /.well-known/acme-challenge/abc HTTP/1.1" 200 87 "-" "x" ` +
      `203.0.113.20:8089 87\n`;
    assert.deepEqual(callsIn(log), [
      { client: "203.0.113.7", refused: true, challenge: false },
      { client: "203.0.113.1", refused: true, challenge: true },
      { client: "203.0.113.9", refused: false, challenge: true },
    ]);
  });

  // HAProxy's error log format: https://docs.haproxy.org/3.0/configuration.html, 8.2.6. Traefik's access log line is
  // as the e2e tests see it.
  test("of HAProxy and Traefik starts with the client", () => {
    const log =
      "203.0.113.7:41234 [24/Nov/2026:08:00:00.000] http/1: " +
      "Received something which does not look like a PROXY protocol header\n" +
      '2001:db8::7 - - [24/Nov/2026:08:00:01 +0000] "GET / HTTP/1.1" 200 5 "-" "-" 3 "shop@kubernetes" ' +
      '"http://203.0.113.20:8000" 1ms\n';
    assert.deepEqual(callsIn(log), [
      { client: "203.0.113.7", refused: true, challenge: false },
      { client: "2001:db8::7", refused: false, challenge: false },
    ]);
  });

  test("yields no call without an address, from numbers like addresses, or from a header without an end", () => {
    assert.deepEqual(callsIn('started v1.2.3.4.5 at 08:00:00\n999.1.1.1 x\nbroken header: "GET /'), []);
    assert.deepEqual(callsIn('broken header: "x" while reading PROXY protocol, client: unix:, server: y\n'), []);
  });
});

test("a hostile log is read quickly, and the end of a long log is kept", async () => {
  const started = performance.now();
  callsIn('broken header: "'.repeat(500_000));
  callsIn("1.1.1.".repeat(1_000_000));
  callsIn(":".repeat(4_000_000));
  assert.ok(performance.now() - started < 10_000, `${performance.now() - started} ms`);
  async function* chunks() {
    for (let index = 0; index < 40; index++) yield `${index} ${"x".repeat(1_000_000)}`;
    yield "192.0.2.1 the end";
  }
  const text = await readLog(chunks());
  assert.ok(text.endsWith("192.0.2.1 the end") && text.length < 20_000_000, String(text.length));
});
