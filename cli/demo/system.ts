import { type AddressInfo, createServer } from "node:net";
import { observe } from "#controller/observe.ts";
import type { StatusDocument } from "#controller/status.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { listen } from "#lib/http/listen.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { runProxy } from "#proxy/run.ts";
import { StoredCluster } from "../dump/stored-cluster.ts";

const LOOPBACK = "127.0.0.1";
/** How long the controller may take, and how long nothing may happen until then. The machine may be busy. */
const PATIENCE = { withinMs: 15_000, stuckMs: 500 };

/** What the controller says about the objects, and a running proxy. */
export type DemoSystem = Awaited<ReturnType<typeof startSystem>>;

/**
 * Evaluates the objects as the controller does, and starts a proxy. All names have one target, the ingress controller
 * on `ingressPort`. It advertises 80 and 443, as a front Service would. Without root, the relay binds ports above 1023.
 */
export async function startSystem(objects: readonly ApiObject[], ingressPort: number) {
  const cluster = new StoredCluster();
  for (const object of objects) cluster.add(object);
  const httpPort = await freePort();
  const port = { upstreamPort: ingressPort, protocol: "v1" };
  const ports = [
    { ...port, port: 80, listenPort: httpPort },
    { ...port, port: 443, listenPort: await freePort() },
  ];
  const config = parseConfig({
    targets: [{ name: "ingress-nginx", upstream: { host: LOOPBACK }, ports, clusterIPs: [LOOPBACK] }],
    discovery: { enabled: false },
    // No controller writes the status of objects in files.
    sources: { gateway: { requireAccepted: false } },
    policy: { verifyDns: "off" },
    // Somebody is watching: a shutdown should not take half a minute.
    proxy: { address: LOOPBACK, healthPort: 0, drainSeconds: 1 },
  });
  const client = cluster.client(true);
  const observed = await observe(config, { client, clusterDomain: "cluster.local", identity: "demo", ...PATIENCE });
  const mapped = observed.names.filter(({ reason }) => reason === undefined);
  /** The map that a leader would publish. */
  const map = publishedMapOf("demo", new Map(mapped.map(({ name, addresses }) => [name, addresses])));
  const proxy = await runProxy(config, { log: silentLogger, interfaceAddresses: [] });
  const status: StatusDocument = { ...observed, leader: true, revision: map.revision };
  return {
    map,
    status,
    /** Where the relay listens for HTTP, instead of port 80 of the front Service's ClusterIP. */
    front: { address: LOOPBACK, port: httpPort },
    /** The metrics of the proxy, in Prometheus' text format. */
    metrics: async () => [await (await fetch(`http://${LOOPBACK}:${proxy.healthPort}/metrics`)).text()],
    stop: proxy.stop,
  };
}

/** A free port for the relay. If another process takes the port first, the demo fails with that error. */
async function freePort(): Promise<number> {
  const server = createServer();
  await listen(server, 0, LOOPBACK);
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
