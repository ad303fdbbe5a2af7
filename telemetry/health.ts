import type { ServerResponse } from "node:http";
import type { AddressInfo, Server as NetServer } from "node:net";
import { SwitchbackError } from "../errors/errors.ts";
import { http } from "./http.ts";

/** The result of a probe. The text is for users who read the probe's failure. */
export interface Health {
  readonly ok: boolean;
  readonly text: string;
}

/** Every watch is active within two minutes, whatever the API server does (idle timeout and backoff of the client). */
const HANGING_MS = 180_000;

/**
 * Liveness of a process that depends on watches. An unavailable API server is no reason for a restart, which would only lose the
 * last good state. A watch without any activity is.
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

/** Metrics in Prometheus' text format. */
export interface MetricsText {
  readonly contentType: string;
  metrics(): string | Promise<string>;
}

export interface HealthServerOptions {
  readonly address: string;
  /** 0 selects a free port. */
  readonly port: number;
  readonly live: () => Health;
  readonly ready: () => Health;
  /** A prom-client registry, or another source of the same text. */
  readonly registry: MetricsText;
  readonly pages?: Readonly<Record<string, () => Page>>;
}

export interface HealthServer {
  readonly port: number;
  close(): Promise<void>;
}

/**
 * Starts the plain HTTP server of a component: `/healthz` (liveness), `/readyz` (readiness), `/metrics` (Prometheus) and the
 * component's pages. Probes answer 200 or 503 with a text. Throws `listen-failed`.
 */
export async function startHealthServer(options: HealthServerOptions): Promise<HealthServer> {
  const pages: Readonly<Record<string, () => Page>> = options.pages ?? {};
  const answer = async (path: string, response: ServerResponse): Promise<void> => {
    if (path === "/healthz") return probe(response, options.live());
    if (path === "/readyz") return probe(response, options.ready());
    if (path === "/metrics") return send(response, 200, options.registry.contentType, await options.registry.metrics());
    const page = Object.hasOwn(pages, path) ? pages[path] : undefined;
    if (page === undefined) return send(response, 404, "text/plain", "not found\n");
    const { contentType, body } = page();
    send(response, 200, contentType, body);
  };
  const server = http.createServer((request, response) => {
    const path = (request.url ?? "/").split("?", 1)[0] ?? "/";
    answer(path, response).catch(() => {
      if (response.headersSent) response.destroy();
      else send(response, 500, "text/plain", "internal error\n");
    });
  });
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

/** Errors of binding `::` on a host without IPv6. */
const NO_IPV6: readonly (string | undefined)[] = ["EAFNOSUPPORT", "EADDRNOTAVAIL"];

/**
 * Binds a server. Rejects with `listen-failed` and a message with the address and port. `::` means all addresses, so without IPv6
 * it falls back to all IPv4 addresses.
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

function bind(server: NetServer, port: number, address: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, address, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

function probe(response: ServerResponse, health: Health): void {
  send(response, health.ok ? 200 : 503, "text/plain", `${health.text}\n`);
}

function send(response: ServerResponse, status: number, contentType: string, body: string): void {
  response.writeHead(status, { "content-type": contentType, "content-length": Buffer.byteLength(body) });
  response.end(body);
}
