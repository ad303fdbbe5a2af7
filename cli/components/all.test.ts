import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { describe, test } from "node:test";
import type { Probes } from "#lib/http/listen.ts";
import { freePort } from "#proxy/conformance/rig.ts";
import { endOf, send } from "#proxy/conformance/streams.ts";
import { until } from "#test/fakes/kube-api.ts";
import { AllProcess } from "#test/fakes/relay-process.ts";
import { probesOfAll } from "./all.ts";

/** The `timeoutSeconds` that the chart sets for the webhook. */
const API_SERVER_WAITS_MS = 2_000;
const PARTS = ["controller", "webhook", "proxy"] as const;

describe("controller, webhook and proxy in one process", () => {
  test("log and call the API server under their own names, and have separate metrics", async () => {
    await using all = await AllProcess.start();
    await all.listens();
    const agents = () => new Set(all.api.calls.map(({ headers }) => headers["user-agent"]?.split("/")[0]));
    await until(() => agents().size === PARTS.length, "calls by all parts");
    assert.deepEqual([...agents()].sort(), PARTS.map((part) => `switchback-${part}`).sort());
    for (const [part, port] of [
      ["controller", "controller"],
      ["webhook", "webhookHealth"],
      ["proxy", "proxyHealth"],
    ] as const) {
      const { text } = await all.page(port, "/metrics");
      const parts = new Set([...text.matchAll(/^switchback_(controller|webhook|proxy)_/gm)].map(([, name]) => name));
      assert.deepEqual([...parts], [part]);
    }
    const { status, text } = await all.page("controller", "/readyz");
    // There is no map in this cluster.
    assert.equal(status, 503);
    assert.match(text, /^proxy: \[\+\] listener web:443/);
    assert.match(text, /^webhook: \[\+\] certificate.*\n\[-\] map: not loaded/m);
    assert.equal((await all.page("proxyHealth", "/readyz")).status, 200, "each port has the page of its part");
    assert.equal((await all.page("controller", "/healthz")).status, 200);
  });

  test("on SIGTERM the webhook serves until the relay has drained", async () => {
    await using all = await AllProcess.start(["proxy.drainSeconds=60"]);
    await all.listens();
    const { client, upstream } = await all.relayed();
    all.child.kill("SIGTERM");
    await all.says("stopping");
    await until(() => all.lines.some(({ msg }) => msg === "stopping"), "the signal");
    assert.match((await all.page("webhookHealth", "/readyz")).text, /^\[\+\] not stopping/m);
    assert.equal(await all.admits(), true);
    assert.deepEqual(all.child.exitCode, null);
    upstream.end("answer");
    client.end();
    assert.equal((await endOf(client)).bytes.toString(), "answer");
    await endOf(upstream);
    assert.equal((await all.says("drained")).component, "proxy");
    assert.deepEqual(await all.exited, [0, null]);
    await assert.rejects(all.admits());
  });

  test("answer admissions in time while the relay is busy", async (t) => {
    await using all = await AllProcess.start(["proxy.engine=linux", "proxy.workers=1"]);
    await all.listens();
    const bytes = Buffer.alloc(1024 * 1024);
    const busy = { until: false };
    const transfers = Array.from({ length: 8 }, async () => {
      const { client, upstream } = await all.relayed();
      upstream.resume();
      let sent = 0;
      for (; !busy.until; sent += bytes.length) await send(client, bytes);
      client.destroy();
      return sent;
    });
    await all.admits();
    const took: number[] = [];
    for (let count = 0; count < 9; count += 1) {
      const asked = performance.now();
      assert.equal(await all.admits(), true);
      took.push(performance.now() - asked);
    }
    busy.until = true;
    const relayed = (await Promise.all(transfers)).reduce((sum, sent) => sum + sent);
    took.sort((a, b) => a - b);
    const median = took[4] ?? Number.NaN;
    t.diagnostic(`${relayed >> 20} MiB relayed; median ${median.toFixed()} ms, slowest ${took.at(-1)?.toFixed()} ms`);
    assert.ok(relayed > 20 * bytes.length);
    // Other tests share the CPU cores, so the slowest call proves nothing.
    assert.ok(median < API_SERVER_WAITS_MS, `${median} ms`);
  });

  test("all end with an error when a worker of the relay dies", async () => {
    await using all = await AllProcess.start(["proxy.engine=linux", "proxy.workers=2", "proxy.drainSeconds=1"]);
    await all.listens();
    all.child.kill("SIGUSR2");
    await all.says("a relay worker died");
    assert.deepEqual(await all.exited, [1, null]);
    for (const port of ["controller", "webhookHealth", "proxyHealth"] as const) {
      await assert.rejects(all.page(port, "/healthz"), port);
    }
  });

  test("none of them starts if one cannot", async () => {
    const server = createServer().listen(await freePort(), "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    try {
      await using all = await AllProcess.start([], { webhook: port });
      assert.deepEqual(await all.exited, [1, null]);
      assert.ok(all.lines.some(({ msg }) => msg.includes(`cannot listen on 127.0.0.1 port ${port}`)));
      assert.ok(all.lines.some(({ msg, component }) => msg === "drained" && component === "proxy"));
    } finally {
      server.close();
    }
  });
});

describe("the combined probes", () => {
  const well = { ok: true, text: "ok" };
  const ill = { ok: false, text: "ill" };
  const part = (live: boolean, ready: boolean): Probes => ({
    live: () => (live ? well : ill),
    ready: () => (ready ? well : ill),
  });
  const good = part(true, true);

  test("the process is not live if a part hangs, but is live while a part starts", () => {
    assert.equal(probesOfAll({}, () => 0).live().ok, true);
    for (const hanging of PARTS) {
      const parts = { controller: good, webhook: good, proxy: good, [hanging]: part(false, true) };
      assert.deepEqual(probesOfAll(parts, () => 0).live(), ill, hanging);
    }
  });

  test("the process is ready once all parts are; after that only the relay counts", () => {
    const parts: Record<(typeof PARTS)[number], Probes> = { controller: good, webhook: good, proxy: good };
    const { ready } = probesOfAll(parts, () => 0);
    parts.webhook = part(true, false);
    assert.equal(ready().ok, false);
    parts.webhook = good;
    assert.equal(ready().ok, true);
    parts.webhook = part(true, false);
    parts.controller = part(true, false);
    assert.equal(ready().ok, true);
    parts.proxy = part(true, false);
    assert.equal(ready().ok, false);
    assert.equal(ready().text, "proxy: ill\ncontroller: ill\nwebhook: ill");
  });

  test("parts that do not become ready delay the relay's readiness by 30 s at most", () => {
    let elapsed = 29_999;
    const { ready } = probesOfAll({ proxy: good }, () => elapsed);
    assert.equal(ready().ok, false);
    elapsed = 30_000;
    assert.deepEqual(ready(), { ok: true, text: "proxy: ok\ncontroller: starting\nwebhook: starting" });
  });
});
