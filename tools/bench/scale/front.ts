import { readFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Agent, createServer, request } from "node:https";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { INDEX_KEY, INDEX_NAME, isShardName, parseIndex } from "#lib/documents/map-format.ts";
import { type Count, Counts, isLeaders } from "./counts.ts";
import { AgentLeases } from "./leases.ts";
import { formOf, MadeUpObjects, nodeStep, Versions } from "./objects.ts";
import { madeUpKinds, type Population } from "./population.ts";

/** Options of the front, in a file whose path is the argument. */
export interface FrontOptions {
  readonly upstream: string;
  readonly ca: string;
  readonly token: string;
  readonly serving: { readonly key: string; readonly cert: string };
  readonly population: Population;
  /** The namespace of the agents' Leases. */
  readonly agents: string;
  /** Number of real agents. */
  readonly realAgents: number;
}

/** Requests to the front over the channel of its process. */
export type FrontRequest =
  | { readonly ask: "counts" }
  | { readonly ask: "activity" }
  /** Changes the status of this many pods, spread over all of them. */
  | { readonly ask: "touch"; readonly pods: number }
  | ({ readonly ask: "stop-at-write" } & StopAtWrite)
  /** Cancels `stop-at-write`, whose response then says that nothing was stopped. */
  | { readonly ask: "do-not-stop" };

/** Stops a process (SIGSTOP) `afterMs` milliseconds after its component has written ConfigMaps this many times. */
export interface StopAtWrite {
  readonly component: string;
  readonly pid: number;
  readonly writes: number;
  readonly afterMs: number;
}

/** The parts of an API path, such as `/api/v1/namespaces/a/pods/b`. */
interface Target {
  readonly group: string;
  readonly namespace: string | undefined;
  readonly resource: string;
  readonly name: string | undefined;
  readonly subresource: boolean;
}

// A server between the components and a real API server. It makes up pods, namespaces, their Deployments and
// ReplicaSets, and the agents' Leases. Everything else goes to the API server with an administrator's rights, because
// the benchmark does not test permissions. The token names the client: `controller`, `agent-17`.

const options: FrontOptions = JSON.parse(readFileSync(process.argv[2] ?? "", "utf8"));
const counts = new Counts();
const versions = new Versions();
const leases = new AgentLeases(options.agents, options.population.nodes, options.realAgents);
const kinds = Object.entries(madeUpKinds(options.population));
const objects = new Map(kinds.map(([resource, kind]) => [resource, new MadeUpObjects(kind, versions)]));
const leaseObjects = new MadeUpObjects(leases, versions);
const upstream = new URL(options.upstream);
const agent = new Agent({ keepAlive: true, ca: options.ca });
/** Number of requests without a response so far, except watches. */
let pending = 0;
let stopping: StopAtWrite | undefined;

const server = createServer(options.serving, (asked, response) => {
  serve(asked, response).catch((error: unknown) => {
    process.stderr.write(`front: ${asked.method} ${asked.url}: ${String(error)}\n`);
    response.destroy();
  });
});
// Components keep their connections; the server's default idle limit would close them.
server.keepAliveTimeout = 120_000;
server.requestTimeout = 0;
server.listen(0, "127.0.0.1", () => process.send?.({ port: (server.address() as AddressInfo).port }));
process.on("disconnect", () => process.exit());
process.on("message", (message: FrontRequest) => {
  if (message.ask === "counts") {
    process.send?.({ counts: counts.take(), copied: leases.copied });
    leases.copied = 0;
    return;
  }
  if (message.ask === "activity") {
    process.send?.({ pending, bytes: counts.bytes });
    return;
  }
  if (message.ask === "do-not-stop") {
    if (stopping !== undefined) process.send?.({ stopped: false });
    stopping = undefined;
    return;
  }
  if (message.ask === "stop-at-write") {
    stopping = message;
    return;
  }
  const pods = objects.get("pods");
  const step = Math.max(1, Math.floor(options.population.pods / Math.max(1, message.pods)));
  for (let index = 0, done = 0; index < options.population.pods && done < message.pods; index += step, done += 1) {
    pods?.change(index);
  }
  process.send?.({ touched: true });
});

interface Asked {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly target: Target;
  readonly query: URLSearchParams;
  readonly count: Count;
}

async function serve(asking: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(asking.url ?? "/", "https://front");
  const target = targetOf(url.pathname);
  const user = /^Bearer (.*)$/.exec(asking.headers.authorization ?? "")?.[1] ?? "none";
  const component = user.replace(/-\d+$/, "");
  const count = counts.of(component, verbOf(asking.method ?? "GET", target, url.searchParams), target.resource);
  count.requests += 1;
  if (count.verb !== "watch") {
    pending += 1;
    response.once("close", () => {
      pending -= 1;
    });
  }
  const asked = { request: asking, response, target, query: url.searchParams, count };
  if (isLease(target)) return await serveLeases(asked);
  const made = target.subresource ? undefined : objects.get(target.resource);
  if (made !== undefined && isMadeUp(made, target)) return await serveObjects(made, asked);
  forward(asked);
}

function targetOf(path: string): Target {
  const parts = path
    .split("/")
    .filter((part) => part !== "")
    .map(decodeURIComponent);
  const group = parts[0] === "apis" ? (parts[1] ?? "") : "";
  const rest = parts.slice(parts[0] === "apis" ? 3 : 2);
  const scoped = rest[0] === "namespaces" && rest.length > 2;
  const [resource = path, name, sub] = scoped ? rest.slice(2) : rest;
  return { group, namespace: scoped ? rest[1] : undefined, resource, name, subresource: sub !== undefined };
}

function verbOf(method: string, { name }: Target, query: URLSearchParams): string {
  if (method !== "GET") return method.toLowerCase();
  if (query.get("watch") === "true") return "watch";
  return name === undefined ? "list" : "get";
}

function isLease({ group, resource, namespace }: Target): boolean {
  return group === "coordination.k8s.io" && resource === "leases" && namespace === options.agents;
}

/**
 * Whether the object is made up. Objects of other namespaces and namespaces with other names belong to the API
 * server.
 */
function isMadeUp({ kind }: MadeUpObjects, { namespace, name, resource }: Target): boolean {
  if (resource === "namespaces") return name === undefined || kind.numberOf(undefined, name) !== undefined;
  return namespace === undefined || kind.range(namespace) !== undefined;
}

async function serveObjects(made: MadeUpObjects, asked: Asked): Promise<void> {
  const { target, query, response } = asked;
  const form = formOf(asked.request.headers.accept);
  if (asked.request.method !== "GET") {
    asked.request.resume();
    return refuse(asked, 409, "Conflict");
  }
  if (target.name !== undefined) {
    const index = made.kind.numberOf(target.namespace, target.name);
    return index === undefined ? refuse(asked, 404, "NotFound") : answer(asked, 200, made.one(index, form));
  }
  const fieldSelector = query.get("fieldSelector") ?? undefined;
  const selection = {
    namespace: target.namespace,
    labelSelector: query.get("labelSelector") ?? undefined,
    fieldSelector,
    every: target.resource === "pods" ? nodeStep(fieldSelector, options.population.nodes) : undefined,
  };
  if (query.get("watch") !== "true") return answer(asked, 200, made.list(selection, form, query));
  await made.watch(selection, form, query, { response, count: asked.count });
}

async function serveLeases(asked: Asked): Promise<void> {
  const { target, request: asking, count } = asked;
  if (target.name === undefined) return await serveObjects(leaseObjects, asked);
  const index = leases.numberOf(undefined, target.name);
  if (index === undefined) return refuse(asked, 404, "NotFound");
  if (asking.method === "PATCH" || asking.method === "PUT") {
    count.sent += Number(asking.headers["content-length"] ?? 0);
    leases.apply(index, (await json(asking)) as Parameters<AgentLeases["apply"]>[1], leaseObjects);
  } else {
    asking.resume();
    if (!leases.has(index)) return refuse(asked, 404, "NotFound");
    if (asking.method === "DELETE") leases.remove(index, leaseObjects);
  }
  answer(asked, 200, leaseObjects.one(index, formOf(asking.headers.accept)));
}

/** Forwards a request to the API server, and the response back, unchanged. */
function forward({ request: asking, response, query, count }: Asked): void {
  stopAtWrite(count);
  count.sent += Number(asking.headers["content-length"] ?? 0);
  const headers = { ...asking.headers, host: upstream.host, authorization: `Bearer ${options.token}` };
  const { hostname: host, port } = upstream;
  const isWatch = query.get("watch") === "true";
  const sent = request({ host, port, method: asking.method, path: asking.url, headers, agent });
  sent.on("response", (answered) => {
    if ((answered.statusCode ?? 0) >= 400) count.refused += 1;
    if (isLeaders(count) && (answered.statusCode ?? 0) < 300) noteWrite(asking.url ?? "", Buffer.concat(body), count);
    response.writeHead(answered.statusCode ?? 502, answered.headers);
    response.flushHeaders();
    answered.on("data", (chunk: Buffer) => {
      count.bytes += chunk.length;
      if (isWatch) count.events += linesIn(chunk);
    });
    answered.pipe(response);
    answered.on("error", () => response.destroy());
  });
  sent.on("error", () => response.destroy());
  response.on("close", () => sent.destroy());
  const body: Buffer[] = [];
  if (isLeaders(count)) asking.on("data", (chunk: Buffer) => body.push(chunk));
  asking.pipe(sent);
}

/** The shards that the last written index names. */
let named: ReadonlySet<string> = new Set();

/**
 * Records an accepted write, and whether anybody reads what was written: nobody reads a shard that the index does not
 * name.
 */
function noteWrite(url: string, body: Buffer, count: Count): void {
  const name = new URL(url, "https://front").pathname.split("/").at(-1) ?? "";
  count.written.push({ url, isRead: !isShardName(name) || named.has(name) });
  if (name !== INDEX_NAME) return;
  const text = (JSON.parse(body.toString()) as { data?: Record<string, string> }).data?.[INDEX_KEY];
  const index = text === undefined ? undefined : parseIndex(text);
  if (index !== undefined && !("code" in index)) named = new Set(index.shards.map((shard) => shard.name));
}

/**
 * Stops the process, but not the write. The response waits for the process, which makes its next write when it
 * resumes.
 */
function stopAtWrite({ component, verb, resource }: Count): void {
  if (stopping?.component !== component || verb !== "patch" || resource !== "configmaps") return;
  const { pid, writes, afterMs } = stopping;
  stopping = writes > 1 ? { ...stopping, writes: writes - 1 } : undefined;
  if (stopping !== undefined) return;
  const stop = () => {
    process.kill(pid, "SIGSTOP");
    process.send?.({ stopped: true });
  };
  if (afterMs === 0) stop();
  else setTimeout(stop, afterMs);
}

function linesIn(chunk: Buffer): number {
  let lines = 0;
  for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, at + 1)) lines += 1;
  return lines;
}

function refuse(asked: Asked, code: number, reason: string): void {
  asked.count.refused += 1;
  const status = { kind: "Status", apiVersion: "v1", status: "Failure", reason, message: reason, code };
  answer(asked, code, JSON.stringify(status));
}

function answer({ response, count }: Asked, status: number, body: string): void {
  const bytes = Buffer.from(body);
  count.bytes += bytes.length;
  response.writeHead(status, { "content-type": "application/json", "content-length": bytes.length });
  response.end(bytes);
}
