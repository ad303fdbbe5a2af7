import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import type { Agent } from "node:http";
import https from "node:https";
import { type TestContext, test } from "node:test";
import { http } from "#lib/http/http.ts";
import type { Access } from "./credentials.ts";
import { createTransport, type Exchange } from "./transport.ts";

type Options = { agent: Agent & { options: Record<string, unknown> } } & Record<string, unknown>;

interface Request extends EventEmitter {
  readonly protocol: string;
  readonly options: Options;
  body: Buffer | undefined;
}

const accessOf = (more: Partial<Access> = {}): Access => ({
  server: new URL("https://10.96.0.1"),
  headers: { authorization: "Bearer a" },
  tls: { ca: "one" },
  ...more,
});

const GET: Omit<Exchange, "signal"> = { method: "GET", path: "/version", channel: "call" };

/** A transport whose requests the test controls. */
function start(t: TestContext, first = accessOf()) {
  const rig = { access: first, renewed: first, renewals: [] as Access[] };
  const requests: Request[] = [];
  for (const [protocol, module] of [
    ["http", http],
    ["https", https],
  ] as const) {
    t.mock.method(module, "request", (options: Options) => {
      const request: Request = Object.assign(new EventEmitter(), {
        protocol,
        options,
        body: undefined,
      });
      Object.assign(request, {
        end: (body?: Buffer) => {
          request.body = body;
        },
      });
      requests.push(request);
      return request;
    });
  }
  const credentials = {
    current: async () => rig.access,
    renew: async (used: Access) => {
      rig.renewals.push(used);
      return rig.renewed;
    },
  };
  const transport = createTransport(credentials, "switchback/test");
  t.after(() => transport.close());
  const control = new AbortController();
  /** Sends a request and waits until it is made. */
  const send = async (exchange: Partial<Exchange> = {}) => {
    const count = requests.length;
    const response = transport.send({ ...GET, signal: control.signal, ...exchange });
    response.catch(() => {});
    await turns();
    return { response, request: requests[count] ?? assert.fail("no request") };
  };
  return { rig, requests, transport, control, send };
}

async function turns(): Promise<void> {
  for (let count = 0; count < 5; count += 1) await new Promise(setImmediate);
}

test("a request has the server's address, path prefix and all headers; access wins, then the call", async (t) => {
  const { send, control } = start(t, accessOf({ server: new URL("https://api.test:6443/k8s/one/") }));
  const headers = { accept: "application/x", authorization: "none", "x-y": "z" };
  const { request } = await send({ method: "POST", path: "/api?a=b", headers, body: "é" });
  const { agent, ...options } = request.options;
  assert.deepEqual([request.protocol, request.body], ["https", Buffer.from("é")]);
  assert.deepEqual(options, {
    host: "api.test",
    port: "6443",
    method: "POST",
    path: "/k8s/one/api?a=b",
    headers: {
      accept: "application/x",
      "user-agent": "switchback/test",
      "content-length": 2,
      "x-y": "z",
      authorization: "Bearer a",
    },
    signal: control.signal,
  });
  assert.ok(agent instanceof https.Agent);
});

for (const [server, protocol, host, port] of [
  ["https://10.96.0.1", "https", "10.96.0.1", 443],
  ["http://10.96.0.1", "http", "10.96.0.1", 80],
  ["https://[fd00::1]:6443", "https", "fd00::1", "6443"],
] as const) {
  test(`${server} is called at ${host} port ${port}`, async (t) => {
    const { request } = await start(t, accessOf({ server: new URL(server), headers: {} })).send();
    const { host: called, port: calledPort, path, headers } = request.options;
    assert.deepEqual([request.protocol, called, calledPort, path], [protocol, host, port, "/version"]);
    assert.deepEqual(headers, { accept: "application/json", "user-agent": "switchback/test" });
    assert.equal(request.body, undefined);
  });
}

/** An idle connection of an agent. */
function idle(agent: Agent) {
  const socket = {
    destroyed: 0,
    destroy() {
      socket.destroyed += 1;
    },
  };
  Object.assign(agent.freeSockets, { "api:443": [socket] });
  return socket;
}

test("changed TLS options cause new connections; old idle ones are closed, and those in use finish", async (t) => {
  const { rig, send } = start(t);
  const [call, watch] = [
    (await send()).request.options.agent,
    (await send({ channel: "watch" })).request.options.agent,
  ];
  const sockets = [call, watch].map(idle);
  rig.access = accessOf({ headers: { authorization: "Bearer b" } });
  assert.equal((await send()).request.options.agent, call);
  rig.access = accessOf({ tls: { ca: "two" } });
  const next = (await send()).request.options.agent;
  assert.notEqual(next, call);
  assert.notEqual(next.options.secureContext, call.options.secureContext);
  assert.deepEqual(
    sockets.map(({ destroyed }) => destroyed),
    [1, 1],
  );
  assert.deepEqual([call.maxFreeSockets, watch.maxFreeSockets], [0, 0]);
});

test("idle connections of calls and watches can be dropped, even if there are none yet", async (t) => {
  const { transport, send } = start(t);
  transport.dropIdle();
  const sockets = [
    idle((await send()).request.options.agent),
    idle((await send({ channel: "watch" })).request.options.agent),
  ];
  transport.dropIdle();
  assert.deepEqual(
    sockets.map(({ destroyed }) => destroyed),
    [1, 1],
  );
});

test("a call that is aborted while it waits for access sends nothing", async (t) => {
  const { rig, requests, transport, control } = start(t);
  const reason = new Error("enough");
  const waiting = transport.send({ ...GET, signal: control.signal });
  control.abort(reason);
  await assert.rejects(waiting, reason);
  await assert.rejects(transport.send({ ...GET, signal: control.signal }), reason);
  await turns();
  assert.deepEqual([requests, rig.renewals], [[], []]);
});
