import assert from "node:assert/strict";
import { once } from "node:events";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { connect } from "node:net";
import { afterEach, before, beforeEach, describe, type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { issueAuthority, issueLeaf } from "#certs/issue.ts";
import { http } from "#lib/http/http.ts";
import type { ConfigFlags } from "#lib/process/context.ts";
import { freePort, Upstream } from "#proxy/conformance/rig.ts";
import { takeHeader } from "#proxy/conformance/streams.ts";
import { captured, useFiles } from "#test/fakes/cli.ts";
import { collection, type FakeApi, fakeApi, noConnections, until, watch } from "#test/fakes/kube-api.ts";
import { MemoryServer } from "#test/fakes/memory-server.ts";
import { OBJECTS } from "#test/published.ts";

import { startController } from "./components/controller.ts";
import { startProxy } from "./components/proxy.ts";
import { startWebhook } from "./components/webhook.ts";
import { serve } from "./serve.ts";

const MAIN = fileURLToPath(new URL("./main.ts", import.meta.url));
const STDERR = 2;
const SIGNALS = ["SIGTERM", "SIGINT"] as const;
const NOTHING = "no target has a port with the PROXY protocol: nothing to relay";
const LOCAL = ["proxy.address=127.0.0.1", "proxy.healthPort=0", "proxy.engine=portable"];

interface Line {
  readonly level: string;
  readonly component: string;
  readonly msg: string;
  readonly [field: string]: unknown;
}

const files = useFiles();

/** Listeners for signals would stay until the process ends; here they are removed after each test. */
let listeners: Map<NodeJS.Signals, ReturnType<typeof process.listeners>>;
const ignore = () => {};
const { argv } = process;
beforeEach(() => {
  // The script with which a component would start this program again.
  process.argv = [process.execPath, MAIN];
  listeners = new Map(SIGNALS.map((signal) => [signal, process.listeners(signal)]));
  // A signal without any listener would end the process that runs the tests.
  for (const signal of SIGNALS) process.on(signal, ignore);
});
afterEach(() => {
  process.argv = argv;
  for (const [signal, own] of listeners) {
    process.removeAllListeners(signal);
    for (const listener of own) process.on(signal, listener as NodeJS.SignalsListener);
  }
});

/** The log lines that the process writes to standard error. */
function logLines(t: TestContext): Line[] {
  const lines: Line[] = [];
  const { writeSync } = fs;
  t.mock.method(fs, "writeSync", (fd: number, data: Uint8Array, ...rest: []) => {
    const text = Buffer.from(data).toString();
    if (fd !== STDERR || !text.startsWith("{")) return writeSync(fd, data, ...rest);
    lines.push(JSON.parse(text));
    return data.length;
  });
  syncBuiltinESMExports();
  t.after(() => {
    t.mock.restoreAll();
    syncBuiltinESMExports();
  });
  return lines;
}

const STARTERS = { controller: startController, proxy: startProxy, webhook: startWebhook };

/** Runs a component in this process. */
function start(t: TestContext, component: keyof typeof STARTERS, flags: ConfigFlags, env = {}) {
  const lines = logLines(t);
  let isOver = false;
  const done = serve(component, async () => STARTERS[component], flags, captured(env).context).finally(() => {
    isOver = true;
  });
  done.catch(() => {});
  const find = (msg: string) => lines.find((line) => line.msg === msg);
  const says = async (msg: string) => {
    await until(() => isOver || find(msg) !== undefined, msg);
    const line = find(msg);
    assert.ok(line, `"${msg}" is not among ${JSON.stringify(lines)}`);
    return line;
  };
  return { lines, done, says, isOver: () => isOver };
}

const messages = (lines: readonly Line[]) => lines.map(({ msg }) => msg);
const send = (signal: NodeJS.Signals) => process.emit(signal, signal);

/** An API server without objects that keeps watches open, and the environment variables with which to reach it. */
async function cluster(t: TestContext) {
  const server = new MemoryServer();
  const api = await fakeApi(collection(server.respond, watch()));
  t.after(() => api.close());
  return { api, server, env: { KUBECONFIG: await files.kubeconfig(api.url) } };
}

const agents = ({ calls }: FakeApi) => [...new Set(calls.map(({ headers }) => headers["user-agent"]?.split("/")[0]))];

describe("a component", () => {
  let config: string;
  before(async () => {
    config = await files.file("nothing.yaml", "targets: []\n");
  });

  for (const signal of SIGNALS) {
    test(`stops on ${signal}, and has finished when serve returns`, async (t) => {
      const { lines, done, says } = start(t, "proxy", { config, set: [...LOCAL, "log.level=debug"] });
      await says(NOTHING);
      send(signal);
      await done;
      assert.deepEqual(messages(lines).slice(-3), ["stopping", "drained", "stopped"]);
      const stopping = lines.at(-3);
      assert.deepEqual([stopping?.component, stopping?.signal, stopping?.level], ["proxy", signal, "info"]);
    });
  }

  test("waits for its connections; a second signal ends the process at once", async (t) => {
    await using upstream = await Upstream.listen();
    const port = await freePort();
    const ports = `[{port: 443, upstreamPort: ${upstream.port}, listenPort: ${port}, protocol: v2}]`;
    const config = await files.file("c.yaml", `targets: [{name: web, upstream: {host: 127.0.0.1}, ports: ${ports}}]`);
    const exits: unknown[] = [];
    t.mock.method(process, "exit", (code: number) => exits.push(code));
    const { done, says, isOver } = start(t, "proxy", { config, set: LOCAL });
    await says("listening");
    const client = connect(port, "127.0.0.1");
    client.write("hello");
    const relayed = await upstream.next();
    await takeHeader(relayed);
    send("SIGTERM");
    await says("stopping");
    assert.deepEqual([isOver(), exits], [false, []]);
    send("SIGINT");
    send("SIGTERM");
    assert.deepEqual(exits, [1, 1]);
    const closed = once(client.resume(), "close");
    relayed.end();
    client.end();
    await Promise.all([closed, done]);
  });

  test("starts with a configuration of a later release, and logs which settings it ignores", async (t) => {
    const later = await files.file("later.yaml", "targets: []\nlater: 1\nproxy: { later: 2 }\n");
    const { lines, done, says } = start(t, "proxy", { config: later, set: LOCAL });
    await says(NOTHING);
    send("SIGTERM");
    await done;
    const ignored = lines.filter(({ code }) => code === "config-ignored").map(({ msg }) => msg.replace(/^.*: /, ""));
    const text = "is not a setting of this release; it is ignored";
    assert.deepEqual(ignored, [`proxy.later ${text}`, `later ${text}`]);
  });
});

test("the cluster domain is read from the pod's resolv.conf", async (t) => {
  const { readFileSync } = fs;
  t.mock.method(fs, "readFileSync", (path: string, ...rest: [BufferEncoding]) =>
    path === "/etc/resolv.conf" ? "search ours.svc.cluster.test svc.cluster.test\n" : readFileSync(path, ...rest),
  );
  const healthPort = await freePort();
  const upstream = "upstream: {service: {namespace: edge, name: web}}";
  const ports = `[{port: 443, listenPort: ${await freePort()}, protocol: v2}]`;
  const config = await files.file("domain.yaml", `targets: [{name: web, ${upstream}, ports: ${ports}}]`);
  const { done, says } = start(t, "proxy", { config, set: [...LOCAL, `proxy.healthPort=${healthPort}`] });
  await says("listening");
  assert.match(await text(healthPort, "/readyz"), /web\.edge\.svc\.cluster\.test/);
  send("SIGTERM");
  await done;
});

function text(port: number, path: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const get = http.get({ port, path, host: "127.0.0.1", agent: false }, (response) => {
    let all = "";
    response.on("data", (chunk) => (all += chunk)).on("end", () => resolve(all));
  });
  get.on("error", reject);
  return promise;
}

/** How long the webhook still serves after SIGTERM. */
const DRAIN_MS = 1_000;

/** From now on, waits of the length of the drain end at once. @returns a function that returns their number. */
function skipDrain(t: TestContext): () => number {
  let drains = 0;
  const { setTimeout: start } = globalThis;
  const skip = (run: () => void, ms?: number, ...rest: []) => {
    if (ms === DRAIN_MS) drains++;
    return start(run, ms === DRAIN_MS ? 0 : ms, ...rest);
  };
  t.mock.method(globalThis, "setTimeout", skip as typeof setTimeout);
  return () => drains;
}

describe("in a cluster", () => {
  test("uses a pod's token for the API server of its cluster", async (t) => {
    const { existsSync } = fs;
    t.mock.method(
      fs,
      "existsSync",
      (path: string) => /^\/var\/run\/secrets\/.*\/token$/.test(path) || existsSync(path),
    );
    const { done, lines } = start(t, "proxy", { set: LOCAL }, { KUBERNETES_SERVICE_HOST: "127.0.0.1" });
    await assert.rejects(done, { message: /\/var\/run\/secrets\// });
    assert.deepEqual(lines, []);
  });

  test("the controller holds the Lease under the name of its pod", async (t) => {
    const { api, server, env } = await cluster(t);
    const leases = "/apis/coordination.k8s.io/v1/namespaces/ours/leases";
    server.add(leases, OBJECTS.lease, { metadata: { uid: "u", resourceVersion: "1" }, spec: {} });
    const taken = () => api.calls.find(({ method, path }) => method === "PUT" && path.startsWith(leases));
    const set = ["controller.port=0", "address=127.0.0.1", "namespace=ours"];
    const { done, says } = start(t, "controller", { set }, { ...env, POD_NAME: "controller-7" });
    await says("listening");
    await until(() => taken() !== undefined, "the Lease");
    send("SIGTERM");
    await done;
    assert.deepEqual(
      [JSON.parse(taken()?.body ?? "{}").spec?.holderIdentity, agents(api)],
      ["controller-7", ["switchback-controller"]],
    );
  });

  test("the webhook with certificates of mode files reads the map, and no Secret", async (t) => {
    const { api, env } = await cluster(t);
    const [port, healthPort] = [await freePort(), await freePort()];
    const life = { now: Date.now(), days: 1 };
    const pair = await issueLeaf(await issueAuthority(life), ["a.svc"], life);
    const [cert, key] = [await files.file("tls.crt", pair.cert), await files.file("tls.key", pair.key)];
    const set = [
      ...["namespace=ours", "address=127.0.0.1", `webhook.port=${port}`, `webhook.healthPort=${healthPort}`],
      ...["certs.mode=files", `certs.certFile=${cert}`, `certs.keyFile=${key}`],
    ];
    const { done, says } = start(t, "webhook", { set }, env);
    await says("listening");
    await until(() => api.calls.some(({ path }) => path.endsWith("/ours/configmaps")), "the map");
    let ready = "";
    while (!/\[\+\] certificate: expires/.test(ready)) ready = await text(healthPort, "/readyz");
    assert.ok(api.calls.every(({ path }) => !path.endsWith("/ours/secrets")));
    assert.deepEqual(agents(api), ["switchback-webhook"]);
    const drains = skipDrain(t);
    send("SIGTERM");
    await done;
    assert.ok(drains() > 0, "requests in flight are waited for");
    await noConnections(api);
    await assert.rejects(text(healthPort, "/readyz"));
  });
});
