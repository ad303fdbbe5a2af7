import { type AddressInfo, createServer } from "node:net";
import { observe } from "#controller/observe.ts";
import type { StatusDocument } from "#controller/status.ts";
import { shortHash } from "#hostmap/hash.ts";
import type { PublishedMap } from "#hostmap/types.ts";
import { parseConfig } from "#lib/config/parse.ts";
import type { Config } from "#lib/config/schema.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { listen } from "#lib/http/listen.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { runProxy } from "#proxy/run.ts";
import { storedClient } from "../dump/stored-client.ts";
import { StoredObjects } from "../dump/stored-objects.ts";
import type { KubeObject } from "./objects.ts";

/** What the controller says about the objects, and a running proxy. */
export interface DemoSystem {
  /** Where the relay listens for HTTP, instead of port 80 of the front Service's ClusterIP. */
  readonly front: { readonly address: string; readonly port: number };
  readonly status: StatusDocument;
  /** The map that a leader would publish. */
  readonly map: PublishedMap;
  /** The metrics of the proxy, in Prometheus' text format. */
  readonly metrics: () => Promise<readonly string[]>;
  stop(): Promise<void>;
}

const LOOPBACK = "127.0.0.1";
/** How long the controller may take. It is long because the machine may be busy. */
const WITHIN_MS = 15_000;
/** How long nothing may happen until then, milliseconds. */
const STUCK_MS = 500;

/**
 * Evaluates the objects as the controller does, and starts a proxy. All names have one target, the ingress controller
 * on `ingressPort`.
 */
export async function startSystem(objects: readonly KubeObject[], ingressPort: number): Promise<DemoSystem> {
  const port = await freePort();
  const config = demoConfig(ingressPort, port, await freePort());
  const observed = await observe(config, {
    client: clientOf(objects),
    clusterDomain: "cluster.local",
    identity: "demo",
    withinMs: WITHIN_MS,
    stuckMs: STUCK_MS,
  });
  const map = mapOf(observed);
  const proxy = await runProxy(config, { log: silentLogger, interfaceAddresses: [] });
  return {
    front: { address: LOOPBACK, port },
    status: { ...observed, leader: true, revision: map.revision },
    map,
    metrics: async () => [await (await fetch(`http://${LOOPBACK}:${proxy.healthPort}/metrics`)).text()],
    stop: proxy.stop,
  };
}

/** Kinds that a directory may lack, and that the controller has to know before it decides. */
const LISTED = [
  "/api/v1/services",
  "/apis/networking.k8s.io/v1/ingresses",
  "/apis/networking.k8s.io/v1/ingressclasses",
];

/** An API server with these objects. */
function clientOf(objects: readonly KubeObject[]) {
  const stored = new StoredObjects();
  // Every cluster has it. Once a Namespace is known, the others are known not to exist, and with them their objects.
  stored.add({ apiVersion: "v1", kind: "Namespace", metadata: { name: "default" } });
  for (const object of objects) stored.add(object);
  return storedClient({ objects: stored, answers: new Map(LISTED.map((path) => [`GET ${path}`, { status: 200 }])) });
}

function mapOf({ names }: StatusDocument): PublishedMap {
  const mapped = names.filter(({ reason }) => reason === undefined);
  const entries = new Map(mapped.map(({ name, addresses }) => [name, addresses]));
  return publishedMapOf(shortHash(JSON.stringify([...entries])), entries);
}

/** A free port for the relay. If another process takes the port first, the demo fails with that error. */
async function freePort(): Promise<number> {
  const server = createServer();
  await listen(server, 0, LOOPBACK);
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** The target advertises 80 and 443, as a front Service would. Without root, the relay binds ports above 1023. */
function demoConfig(upstreamPort: number, http: number, https: number): Config {
  return parseConfig({
    targets: [
      {
        name: "ingress-nginx",
        upstream: { host: LOOPBACK },
        ports: [
          { port: 80, upstreamPort, protocol: "v1", listenPort: http },
          { port: 443, upstreamPort, protocol: "v1", listenPort: https },
        ],
        clusterIPs: [LOOPBACK],
      },
    ],
    discovery: { enabled: false },
    // No controller writes the status of objects in files.
    sources: { gateway: { requireAccepted: false } },
    policy: { verifyDns: "off" },
    // Somebody is watching: a shutdown should not take half a minute.
    proxy: { address: LOOPBACK, healthPort: 0, drainSeconds: 1 },
  });
}
