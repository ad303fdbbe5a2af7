import { once } from "node:events";
import http, { type IncomingMessage, type ServerResponse } from "node:http";
import https from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { createClient, type KubeClient } from "#lib/kube/client.ts";
import type { Credentials } from "#lib/kube/credentials.ts";
import { createTransport } from "#lib/kube/transport.ts";
import type { ApiObject, ObjectMeta } from "#lib/kube/types.ts";
import type { KeyPair } from "../cluster/pki.ts";

/** One request that the fake received, with the means to answer it in any wrong way. */
export interface FakeCall {
  method: string;
  /** The path without its query. */
  path: string;
  query: URLSearchParams;
  headers: IncomingMessage["headers"];
  body: string;
  /** `performance.now()` when the request arrived. */
  at: number;
  socket: Socket;
  /** Whether this connection has served a request before. */
  reused: boolean;
  response: ServerResponse;
}

export type Responder = (call: FakeCall) => void | Promise<void>;

export interface FakeApi {
  url: URL;
  calls: FakeCall[];
  /** The number of open connections. */
  connections(): number;
  /** A client without credentials. */
  client: KubeClient;
  close(): Promise<void>;
}

/**
 * A stand-in for an API server, for faults that a real one cannot be made to have. It knows nothing of Kubernetes:
 * `respond` answers every request. Other tests check the real server's behavior against a real one.
 */
export async function fakeApi(
  respond: Responder,
  options: { tls?: KeyPair & { ca?: string }; port?: number } = {},
): Promise<FakeApi> {
  const calls: FakeCall[] = [];
  const sockets = new Set<Socket>();
  const used = new WeakSet<Socket>();
  const listener = async (request: IncomingMessage, response: ServerResponse) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://fake");
    const { socket } = request;
    const reused = used.has(socket);
    used.add(socket);
    const at = performance.now();
    const body = await text(request).catch(() => "");
    const call = { method: request.method ?? "", path: pathname, query: searchParams, headers: request.headers, body };
    const whole = { ...call, at, socket, reused, response };
    calls.push(whole);
    await respond(whole);
  };
  const server = options.tls
    ? https.createServer({ ...options.tls, requestCert: true, rejectUnauthorized: false }, listener)
    : http.createServer(listener);
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => {});
  });
  server.listen(options.port ?? 0, "127.0.0.1");
  await once(server, "listening");
  const url = new URL(`${options.tls ? "https" : "http"}://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const client = clientFor(url);
  return {
    url,
    calls,
    connections: () => sockets.size,
    client,
    async close() {
      client.close();
      for (const socket of sockets) socket.destroy();
      if (!server.listening) return;
      server.close();
      await once(server, "close");
    },
  };
}

/** A client without credentials. */
function clientFor(url: URL): KubeClient {
  const access = { server: url, headers: {}, tls: {} };
  const credentials: Credentials = { current: async () => access, renew: async (used) => used };
  return createClient(createTransport(credentials, "test"));
}

/** `list` answers lists and `watch` answers watches. */
export function collection(list: Responder, watch: Responder): Responder {
  return (call) => (call.query.get("watch") === "true" ? watch(call) : list(call));
}

export function json(body: unknown, status = 200, headers: Record<string, string> = {}): Responder {
  return ({ response }) => {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(JSON.stringify(body));
  };
}

/** A refusal in the API server's words. */
export function refuse(code: number, reason: string, headers: Record<string, string> = {}): Responder {
  return json({ kind: "Status", code, reason, message: `${reason} by the fake` }, code, headers);
}

export function object(name: string, version: string, extra: ObjectMeta = {}): ApiObject {
  return { metadata: { namespace: "shop", name, uid: `uid-${name}`, resourceVersion: version, ...extra } };
}

/** A page of a list. With `next`, more pages follow. */
export function page(items: ApiObject[], resourceVersion: string, next?: string): Responder {
  return json({ kind: "List", metadata: { resourceVersion, ...(next ? { continue: next } : {}) }, items });
}

/**
 * Opens a watch and sends `lines` (objects as JSON, strings unchanged). `then` decides how the watch ends. Default:
 * after the requested time.
 */
export function watch(lines: (object | string)[] = [], then: Responder = endInTime): Responder {
  return async (call) => {
    call.response.writeHead(200, { "content-type": "application/json" });
    call.response.flushHeaders();
    for (const line of lines) call.response.write(typeof line === "string" ? line : `${JSON.stringify(line)}\n`);
    // The written bytes leave before a reset can overtake them.
    await delay(5);
    await then(call);
  };
}

/** A clean end after the request's timeoutSeconds. */
const endInTime: Responder = ({ response, query }) => {
  setTimeout(() => response.end(), Number(query.get("timeoutSeconds")) * 1000).unref();
};

/** Never answers. */
export const hang: Responder = () => {};

/**
 * Waits until no connection is open. Connections that the client ends are closed within some turns of the event loop.
 * Connections that the client keeps alive stay open for a minute.
 */
export async function noConnections(api: FakeApi): Promise<void> {
  for (let turns = 0; api.connections() > 0; turns++) {
    if (turns >= 10_000) throw new Error("the connections stay open");
    await new Promise(setImmediate);
  }
}

/**
 * Polls a condition that another process or the event loop fulfills. The deadline is long, so that a busy machine
 * does not matter.
 */
export async function until(condition: () => boolean, what: string, deadlineMs = 20_000): Promise<void> {
  const deadline = performance.now() + deadlineMs;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`timeout while waiting for: ${what}`);
    await delay(5);
  }
}
