import type { RequestListener } from "node:http";
import { createServer, type ServerOptions } from "node:https";
import type { AddressInfo } from "node:net";
import type { PemPair } from "../certs/pem.ts";
import { listen } from "../telemetry/health.ts";

/** The HTTPS listener that the API server calls. */
export interface WebhookServer {
  /** Binds; gives the port. Until the first pair is in use, handshakes fail. */
  listen(address: string, port: number): Promise<number>;
  /** Serves new connections with this pair. Throws, and goes on with the one before, if OpenSSL does not take it. */
  usePair(pair: PemPair): void;
  /** From here on each answer asks its client to connect anew, which leads elsewhere once this pod is out of the Service. */
  drain(): void;
  /** Takes no more connections and lets requests finish for `graceMs`, then cuts them off. */
  close(graceMs: number): Promise<void>;
}

/**
 * The API server keeps idle connections for 90 s (client-go, SetTransportDefaults). Ours wait longer: were we the first to close,
 * a review sent at that moment would be lost, and a POST is not sent again.
 */
const KEEP_ALIVE_MS = 120_000;
/** The API server waits for two seconds (`timeoutSeconds`); what takes longer than this to come holds memory for nobody. */
const REQUEST_MS = 10_000;
const HEADERS_MS = 5_000;
/** Some API servers with 200 writes under way each (`--max-mutating-requests-inflight`); more are somebody else's, and memory. */
const MAX_CONNECTIONS = 1_024;

export function createWebhookServer(listener: RequestListener, options: ServerOptions = {}): WebhookServer {
  let draining = false;
  const server = createServer(options, (req, res) => {
    if (draining) res.setHeader("connection", "close");
    listener(req, res);
  });
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  server.headersTimeout = HEADERS_MS;
  server.requestTimeout = REQUEST_MS;
  server.maxConnections = MAX_CONNECTIONS;
  return {
    async listen(address, port) {
      await listen(server, port, address);
      return (server.address() as AddressInfo).port;
    },
    usePair: ({ cert, key }) => server.setSecureContext({ cert, key }),
    drain() {
      draining = true;
    },
    async close(graceMs) {
      draining = true;
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      const cut = setTimeout(() => server.closeAllConnections(), graceMs);
      await closed;
      clearTimeout(cut);
    },
  };
}
