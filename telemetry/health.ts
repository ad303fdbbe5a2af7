import type { ServerResponse } from "node:http";
import type { AddressInfo, Server as NetServer } from "node:net";
import { SwitchbackError } from "../errors/errors.ts";
import { http } from "./http.ts";

/** What a probe is told. The text is for the person who reads the probe's failure. */
export interface Health {
  readonly ok: boolean;
  readonly text: string;
}

/** Each watch hears or tries something within two minutes, whatever its API server does (kube-client idle limit and backoff). */
const HANGING_MS = 180_000;

/**
 * The liveness of a process that lives by its watches. An API server that is away is no reason for a restart, which would only lose
 * the last good state; a watch that does nothing at all is.
 */
export function livenessOf(inactiveMs: number): Health {
  if (inactiveMs <= HANGING_MS) return { ok: true, text: "ok" };
  return { ok: false, text: `a watch has done nothing for ${Math.round(inactiveMs / 1000)} s` };
}

/** A page of its own: `/status`, ... */
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
  /** 0 for a free one. */
  readonly port: number;
  readonly live: () => Health;
  readonly ready: () => Health;
  /** Of prom-client, or whatever else gives its text. */
  readonly registry: MetricsText;
  readonly pages?: Readonly<Record<string, () => Page>>;
}

export interface HealthServer {
  readonly port: number;
  close(): Promise<void>;
}

/**
 * The plain HTTP server that every component has: `/healthz` (restart me?), `/readyz` (send me traffic?), `/metrics` (Prometheus),
 * and pages of the component's own. 200 or 503 with a text. Throws `listen-failed`.
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

/** What binding `::` says on a machine without IPv6. */
const NO_IPV6: readonly (string | undefined)[] = ["EAFNOSUPPORT", "EADDRNOTAVAIL"];

/**
 * Binds a server; the promise rejects with `listen-failed` and says which address and port it was. `::` means every address, so
 * where there is no IPv6 it is every IPv4 address.
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
