import type { RequestListener } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { PemPair } from "#certs/pem.ts";
import { reclaimConnections } from "#lib/http/connection-reclaimer.ts";
import { listen, withoutPipelining } from "#lib/http/listen.ts";
import { queueHandshakes } from "./handshake-queue.ts";

/**
 * The API server waits for two seconds (`timeoutSeconds`), handshake included. Slower handshakes only hold memory.
 */
const HANDSHAKE_MS = 2_000;
/**
 * Enough for three API servers with 200 writes in flight each (`--max-mutating-requests-inflight`). Each connection
 * takes 53 KB. Beyond this number, other connections are closed (`reclaimConnections`).
 */
const MAX_CONNECTIONS = 640;

/** The HTTPS listener that the API server calls. */
export function createWebhookServer(listener: RequestListener, maxConnections = MAX_CONNECTIONS) {
  let draining = false;
  const answer = withoutPipelining((req, res) => {
    if (draining) res.setHeader("connection", "close");
    listener(req, res);
  });
  const server = createServer({ handshakeTimeout: HANDSHAKE_MS });
  const connections = reclaimConnections(server, maxConnections, answer);
  queueHandshakes(server, HANDSHAKE_MS, connections.reach);
  return {
    /** Binds, and returns the port. Until the first pair is in use, handshakes fail. Throws `listen-failed`. */
    async listen(address: string, port: number): Promise<number> {
      await listen(server, port, address);
      return (server.address() as AddressInfo).port;
    },
    /** Serves new connections with this pair. If OpenSSL rejects it, throws and keeps the previous pair. */
    usePair: ({ cert, key }: PemPair): void => server.setSecureContext({ cert, key }),
    /** From now on each answer closes its connection: clients reconnect to other replicas. */
    drain(): void {
      draining = true;
    },
    /** Accepts no more connections, lets requests finish for `graceMs`, then closes all connections. */
    async close(graceMs: number): Promise<void> {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      connections.closeUnasked();
      const deadline = setTimeout(() => server.closeAllConnections(), graceMs);
      await closed;
      clearTimeout(deadline);
    },
  };
}
