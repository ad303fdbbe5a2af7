import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { issueAuthority, issueLeaf } from "#certs/issue.ts";
import type { PemPair } from "#certs/pem.ts";
import { startPodDns } from "#extras/pod-dns/webhook/delivery.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { createLogger } from "#lib/telemetry/log.ts";
import { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import { runWebhook } from "#webhook/run.ts";

// One of the two servers of `main.ts`, which starts it as a separate process with an IPC channel.

/** The server to start. */
export type ServerOrder =
  | { readonly kind: "webhook"; readonly names: readonly string[]; readonly ip: string }
  | { readonly kind: "bare"; readonly patch: string };

/** The server's answer when it listens. */
export interface ServerReady {
  readonly port: number;
  readonly ca: string;
}

const LOCAL = "127.0.0.1";

/** The webhook as `switchback webhook` starts it. Only map and certificate come from here, not from an API server. */
async function startWebhook(names: readonly string[], ip: string, pair: PemPair): Promise<number> {
  const config = parseConfig({ address: LOCAL, webhook: { port: 0, healthPort: 0 } });
  const map = publishedMapOf("bench", new Map(names.map((name) => [name, [ip]])));
  const log = createLogger({ level: "error" }, "webhook");
  const registry = new MetricsRegistry();
  const offering = <T>(offer: T) => ({
    start(found: (offer: T) => void) {
      setImmediate(found, offer);
      return { stop: async () => {} };
    },
  });
  const running = await runWebhook(config, {
    maps: offering(map),
    certificates: offering(pair),
    podDns: startPodDns(config, log, registry).podDns,
    registry,
    log,
    now: Date.now,
  });
  return running.port;
}

/** The smallest possible server: it parses the review and returns its uid with a given patch. */
function startBare(patch: string, pair: PemPair): Promise<number> {
  const server = createServer({ cert: pair.cert, key: pair.key }, (request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const review = JSON.parse(Buffer.concat(chunks).toString("utf8"));
      const answer = JSON.stringify({
        apiVersion: "admission.k8s.io/v1",
        kind: "AdmissionReview",
        response: { uid: review.request.uid, allowed: true, patchType: "JSONPatch", patch },
      });
      response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(answer) });
      response.end(answer);
    });
  });
  server.keepAliveTimeout = 120_000;
  return new Promise((resolve) => {
    server.listen(0, LOCAL, () => resolve((server.address() as AddressInfo).port));
  });
}

process.once("message", async (order: ServerOrder) => {
  const authority = await issueAuthority({ now: Date.now(), days: 1 });
  const pair = await issueLeaf(authority, ["localhost"], { now: Date.now(), days: 1 });
  const isWebhook = order.kind === "webhook";
  const port = await (isWebhook ? startWebhook(order.names, order.ip, pair) : startBare(order.patch, pair));
  process.send?.({ port, ca: authority.cert } satisfies ServerReady);
});
process.once("disconnect", () => process.exit(0));
