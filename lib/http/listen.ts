import type { IncomingHttpHeaders, RequestListener, ServerResponse } from "node:http";
import type { AddressInfo, Server as NetServer } from "node:net";
import { SwitchbackError } from "#lib/errors/errors.ts";
import type { MetricsText } from "#lib/telemetry/metrics.ts";
import { processMetrics } from "#lib/telemetry/process-metrics.ts";
import { reclaimConnections } from "./connection-reclaimer.ts";
import { http } from "./http.ts";

/** The result of a probe. Users read the text when the probe fails. */
export interface Health {
  readonly ok: boolean;
  readonly text: string;
}

/** The client's idle timeout and backoff make every watch active within two minutes, whatever the API server does. */
const HANGING_MS = 180_000;

/**
 * Liveness of a process that depends on watches. An unavailable API server is no reason for a restart: a restart
 * would only lose the last good state. A watch without any activity is a reason.
 */
export function livenessOf(inactiveMs: number): Health {
  if (inactiveMs <= HANGING_MS) return { ok: true, text: "ok" };
  return { ok: false, text: `a watch has been inactive for ${Math.round(inactiveMs / 1000)} s` };
}

/** An additional page: `/status`, ... */
export interface Page {
  readonly contentType: string;
  readonly body: string;
}

/** How a page is rendered, and which requests get it. */
interface PageSource {
  readonly render: (query: URLSearchParams) => Page | Promise<Page>;
  /** Whether the page depends on the query. Otherwise the query is ignored, as a page for everybody should do. */
  readonly takesQuery?: boolean;
  /**
   * Returns the reason on one line why this request does not get the page (403), or undefined. Default: every request
   * gets the page.
   */
  readonly refusal?: (headers: IncomingHttpHeaders) => Promise<string | undefined>;
}

/** Answers of the two probes, computed for each request. */
export interface Probes {
  readonly live: () => Health;
  readonly ready: () => Health;
}

export interface HealthServerOptions extends Probes {
  readonly address: string;
  /** 0 selects a free port. */
  readonly port: number;
  /** The component's metrics. */
  readonly registry: MetricsText;
  /** The component's pages, by path. */
  readonly pages?: Readonly<Record<string, PageSource>>;
}

export interface HealthServer {
  readonly port: number;
  close(): Promise<void>;
}

/**
 * Probes, Prometheus, `switchback status` and other components have one connection each. Any pod can reach the port,
 * so above this number connections are closed (`reclaimConnections`).
 */
const MAX_CONNECTIONS = 64;
/** A client is disconnected when it sends nothing and reads nothing for this long. */
const INACTIVE_MS = 10_000;

/**
 * Starts the plain HTTP server of a component: `/healthz` (liveness), `/readyz` (readiness), `/metrics`
 * (Prometheus) and the component's pages. Probes answer 200 or 503 with a text. Throws `listen-failed`.
 */
export async function startHealthServer(options: HealthServerOptions): Promise<HealthServer> {
  const { registry } = options;
  const ofProcess = processMetrics();
  const metrics = async () => ({
    contentType: registry.contentType,
    body: ofProcess.metrics() + (await registry.metrics()),
  });
  const sources: Record<string, PageSource> = { ...options.pages, "/metrics": { render: metrics } };
  const pages = new Map(
    Object.entries(sources).map(([path, page]) => [path, { ...page, render: renderSparingly(page.render) }]),
  );
  const answer = async (url: string, headers: IncomingHttpHeaders, response: ServerResponse): Promise<void> => {
    const [path = "/", query = ""] = url.split("?", 2);
    if (path === "/healthz") return probe(response, options.live());
    if (path === "/readyz") return probe(response, options.ready());
    const page = pages.get(path);
    if (page === undefined) return send(response, 404, "text/plain", "not found\n");
    const refusal = await page.refusal?.(headers);
    if (refusal !== undefined) return send(response, 403, "text/plain", `${refusal}\n`);
    const { contentType, body } = await page.render(page.takesQuery ? query : "");
    send(response, 200, contentType, body);
  };
  const handle = withoutPipelining((request, response) => {
    answer(request.url ?? "/", request.headers, response).catch(() => {
      if (response.headersSent) response.destroy();
      else send(response, 500, "text/plain", "internal error\n");
    });
  });
  const server = http.createServer();
  server.timeout = INACTIVE_MS;
  reclaimConnections(server, MAX_CONNECTIONS, handle);
  await listen(server, options.port, options.address);
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** A page takes at most a tenth of the thread: for this many times its CPU time, requests get the last result. */
const REST = 9;

/** Returns a function that renders a page, or returns the last result while the page rests. */
function renderSparingly(render: PageSource["render"]) {
  /** All readers of the page share its bytes. */
  let last: { readonly query: string; readonly contentType: string; readonly body: Buffer } | undefined;
  let restsUntil = 0;
  return async (query: string) => {
    if (last?.query === query && performance.now() < restsUntil) return last;
    const before = process.threadCpuUsage();
    const { contentType, body } = await render(new URLSearchParams(query));
    const { user, system } = process.threadCpuUsage(before);
    restsUntil = performance.now() + (REST * (user + system)) / 1_000;
    last = { query, contentType, body: Buffer.from(body) };
    return last;
  };
}

/**
 * Ends a connection that sends a request before the answer to the previous one (pipelining). No API server, kubelet
 * or Prometheus does that. Otherwise the requests and answers of a client that does not read would accumulate.
 */
export function withoutPipelining(listener: RequestListener): RequestListener {
  return (request, response) => {
    // A response has no socket until the previous response has been written.
    if (response.socket === null) request.socket.destroy();
    else listener(request, response);
  };
}

/** Errors of binding `::` on a host without IPv6. */
const NO_IPV6: readonly (string | undefined)[] = ["EAFNOSUPPORT", "EADDRNOTAVAIL"];

/**
 * Binds a server. Rejects with `listen-failed` and a message with the address and port. `::` means all addresses,
 * so without IPv6 it falls back to all IPv4 addresses.
 */
export async function listen(server: NetServer, port: number, address: string): Promise<void> {
  try {
    await bind(server, port, address);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (address === "::" && NO_IPV6.includes(code)) return listen(server, port, "0.0.0.0");
    throw new SwitchbackError("listen-failed", `cannot listen on ${address} port ${port}`, { cause });
  }
}

/**
 * Connections that the kernel keeps until the process accepts them: Linux' own limit (`somaxconn`). With Node's
 * default of 511, the kernel drops connections when many clients connect at once. They try again a second later.
 */
const BACKLOG = 4_096;

function bind(server: NetServer, port: number, address: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, address, BACKLOG, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

function probe(response: ServerResponse, health: Health): void {
  send(response, health.ok ? 200 : 503, "text/plain", `${health.text}\n`);
}

function send(response: ServerResponse, status: number, contentType: string, body: string | Buffer): void {
  response.writeHead(status, { "content-type": contentType, "content-length": Buffer.byteLength(body) });
  response.end(body);
}
