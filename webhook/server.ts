import type { RequestListener } from "node:http";
import { createServer, type ServerOptions } from "node:https";
import type { AddressInfo } from "node:net";
import type { PemPair } from "../certs/pem.ts";
import { listen } from "../telemetry/health.ts";

/** The HTTPS listener that the API server calls. */
export interface WebhookServer {
  /** Binds, and returns the port. Until the first pair is in use, handshakes fail. */
  listen(address: string, port: number): Promise<number>;
  /** Serves new connections with this pair. If OpenSSL rejects it, throws and keeps the previous pair. */
  usePair(pair: PemPair): void;
  /** From now on each answer closes its connection: clients reconnect to other replicas once this pod is out of the Service. */
  drain(): void;
  /** Accepts no more connections, lets requests finish for `graceMs`, then closes all connections. */
  close(graceMs: number): Promise<void>;
}

/**
 * The API server keeps idle connections for 90 s (client-go, SetTransportDefaults). The webhook keeps them longer: if it closed
 * first, a review sent at that moment would be lost, and a POST is not retried.
 */
const KEEP_ALIVE_MS = 120_000;
/** The API server waits for two seconds (`timeoutSeconds`). A slower request would only hold memory. */
const REQUEST_MS = 10_000;
const HEADERS_MS = 5_000;
/** Several API servers with 200 writes in flight each (`--max-mutating-requests-inflight`). More would only cost memory. */
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
      const deadline = setTimeout(() => server.closeAllConnections(), graceMs);
      await closed;
      clearTimeout(deadline);
    },
  };
}
