import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import type { AddressInfo, Server as NetServer } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { SwitchbackError } from "#lib/errors/errors.ts";
import type { MetricsText } from "#lib/telemetry/metrics.ts";
import { processMetrics } from "#lib/telemetry/process-metrics.ts";
import { type ByteBudget, chargeAnswer, createByteBudget } from "./byte-budget.ts";
import { reclaimConnections, withoutPipelining } from "./connection-reclaimer.ts";
import { http } from "./http.ts";
import { CHECK_MS, keepIdleConnections } from "./idle-connections.ts";

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
  readonly render: (query: URLSearchParams) => Page;
  /** Whether the page depends on the query. Otherwise the query is ignored, as a page for everybody should do. */
  readonly takesQuery?: boolean;
  /**
   * Returns the reason on one line why this request does not get the page (403), or undefined. Default: every request
   * gets the page.
   */
  readonly refusal?: (headers: IncomingHttpHeaders) => string | undefined;
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
const HEADERS_MS = 2_000;
const REQUEST_MS = 5_000;
/**
 * A client is disconnected when it reads nothing for `UNREAD_MS`, or has not read a large answer after
 * `LARGE_ANSWER_MS`.
 */
const UNREAD_MS = 10_000;
const LARGE_ANSWER_MS = 30_000;
/**
 * A larger answer does not fit into the buffers of a socket. Such answers are counted while they are read: together
 * they may have `LARGE_ANSWERS_BYTES`, and a single one may be larger.
 */
const SMALL_ANSWER_BYTES = 64 * 1024;
const LARGE_ANSWERS_BYTES = 16 * 1024 * 1024;

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
  const pages = new Map<string, ServedPage>([["/metrics", { render: renderSparingly(metrics) }]]);
  for (const [path, { render, ...page }] of Object.entries(options.pages ?? {})) {
    pages.set(path, { ...page, render: renderSparingly(render) });
  }
  const large = createByteBudget(LARGE_ANSWERS_BYTES);
  const answer = async (url: string, headers: IncomingHttpHeaders, response: ServerResponse): Promise<void> => {
    const [path = "/", query = ""] = url.split("?", 2);
    if (path === "/healthz") return probe(response, options.live());
    if (path === "/readyz") return probe(response, options.ready());
    const page = pages.get(path);
    if (page === undefined) return send(response, 404, "text/plain", "not found\n");
    const refusal = page.refusal?.(headers);
    if (refusal !== undefined) return send(response, 403, "text/plain", `${refusal}\n`);
    const { contentType, body } = await page.render(page.takesQuery ? query : "");
    if (body.length > SMALL_ANSWER_BYTES) limitReading(response, large, body.length);
    send(response, 200, contentType, body);
  };
  const handle = withoutPipelining((request, response) => {
    answer(request.url ?? "/", request.headers, response).catch(() => {
      if (response.headersSent) response.destroy();
      else send(response, 500, "text/plain", "internal error\n");
    });
  });
  const server = http.createServer({ connectionsCheckingInterval: CHECK_MS }, handle);
  keepIdleConnections(server, "connection", { headersMs: HEADERS_MS, requestMs: REQUEST_MS });
  server.timeout = UNREAD_MS;
  const connections = reclaimConnections(server, MAX_CONNECTIONS);
  await listen(server, options.port, options.address);
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        connections.closeAll();
      }),
  };
}

interface ServedPage extends Pick<PageSource, "refusal" | "takesQuery"> {
  readonly render: (query: string) => Promise<RenderedPage>;
}

/** A page as bytes. All its readers share them. */
interface RenderedPage {
  readonly contentType: string;
  readonly body: Buffer;
}

/** CPU time for rendering a page: `RENDER_BURST_MS` at once, then `RENDER_SHARE` of the elapsed time. */
const RENDER_BURST_MS = 100;
const RENDER_SHARE = 0.1;

/**
 * Returns a function that renders a page within the limits above. When they are used up, it returns the last result
 * if the query is the same, and waits otherwise.
 */
function renderSparingly(
  render: (query: URLSearchParams) => Page | Promise<Page>,
): (query: string) => Promise<RenderedPage> {
  let last: { readonly query: string; readonly page: RenderedPage } | undefined;
  let creditMs = RENDER_BURST_MS;
  let since = performance.now();
  const earn = () => {
    const now = performance.now();
    creditMs = Math.min(RENDER_BURST_MS, creditMs + (now - since) * RENDER_SHARE);
    since = now;
  };
  return async (query) => {
    for (earn(); creditMs <= 0; earn()) {
      if (last?.query === query) return last.page;
      await pause(1 - creditMs / RENDER_SHARE);
    }
    const before = process.threadCpuUsage();
    const { contentType, body } = await render(new URLSearchParams(query));
    const page = { contentType, body: Buffer.from(body) };
    last = { query, page };
    const { user, system } = process.threadCpuUsage(before);
    creditMs -= (user + system) / 1_000;
    return page;
  };
}

/** Limits the time and the total size for which large answers are kept for their readers. */
function limitReading(response: ServerResponse, large: ByteBudget, bytes: number): void {
  const deadline = setTimeout(() => response.destroy(), LARGE_ANSWER_MS);
  response.once("close", () => clearTimeout(deadline));
  chargeAnswer(large, response, Math.min(bytes, LARGE_ANSWERS_BYTES));
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
