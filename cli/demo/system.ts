import { type AddressInfo, createServer } from "node:net";
import { issueAuthority, issueLeaf, servingNames } from "#certs/issue.ts";
import { HeaderDecisions } from "#controller/expected-headers/header-decisions.ts";
import { Loop } from "#controller/loop.ts";
import { Pipeline } from "#controller/pipeline.ts";
import { type StatusDocument, statusDocument } from "#controller/status.ts";
import { TargetDiscovery } from "#controller/targets/discovery.ts";
import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import { Plan } from "#hostmap/plan.ts";
import type { TargetAddress } from "#hostmap/types.ts";
import { parseConfig } from "#lib/config/parse.ts";
import type { Config } from "#lib/config/schema.ts";
import { MemoryMap } from "#lib/documents/map-memory.ts";
import type { MapReader } from "#lib/documents/map-reader.ts";
import { listen } from "#lib/http/listen.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { runProxy } from "#proxy/run.ts";
import type { InjectionCache } from "#webhook/injection-cache.ts";
import { type RunningWebhook, runWebhook } from "#webhook/run.ts";
import { type YamlFiles, yamlFiles } from "./yaml-files.ts";

/**
 * The components of Switchback on one machine. They are the same as in a cluster, but connected in memory instead of
 * by an API server.
 */
export interface DemoSystem {
  /** Where the relay listens, instead of the front Service's ClusterIP. */
  readonly front: { readonly address: string; readonly port: number };
  readonly webhook: { readonly port: number; readonly ca: string };
  readonly status: () => StatusDocument;
  /** The metrics of proxy and webhook, in Prometheus' text format. */
  readonly metrics: () => Promise<readonly string[]>;
  readonly directory: YamlFiles;
  /** The map that the webhook uses now. */
  readonly map: () => InjectionCache | undefined;
  stop(): Promise<void>;
}

const LOOPBACK = "127.0.0.1";
const TARGET = "ingress-nginx";

/**
 * Starts controller, webhook and proxy on the given directories. All names have one target, the ingress controller on
 * `ingressPort`.
 */
export async function startSystem(
  directories: readonly string[],
  ingressPort: number,
  log: Logger,
): Promise<DemoSystem> {
  const config = demoConfig(ingressPort, await freePort());
  const sources = directories.map(yamlFiles);
  const plan = new Plan(createClaimPolicy(config.policy, "cluster.local"), config.policy.maxNamesPerNamespace);
  const targets = new TargetDiscovery({ config, log });
  const headers = new HeaderDecisions({ catalog: targets, preferred: "v1" });
  const source = new Pipeline({
    sources,
    resolver: targets,
    locations: targets,
    mode: "auto",
    config,
    plan,
    log,
  });
  const addresses = fixedAddresses([{ name: TARGET, clusterIPs: [LOOPBACK] }]);
  const loop = new Loop({
    source,
    plan,
    addresses,
    store: new MemoryMap(),
    rules: config.map,
    now: Date.now,
    log,
  });
  const leading = new AbortController();
  const webhook = await startWebhook(config, loop.maps, log);
  const map = () => webhook.running.state.map;
  const proxy = await runProxy(config, { log, interfaceAddresses: [] });
  loop.start(leading.signal);
  const [first] = sources;
  if (first === undefined) throw new RangeError("the demo needs a directory");
  const status = () =>
    statusDocument({
      identity: "demo",
      source,
      plan,
      addresses,
      headers,
      config,
      map: { synced: loop.synced, publishedNames: loop.publishedNames, revision: map()?.revision },
    });
  return {
    front: { address: LOOPBACK, port: proxy.ports[0] ?? 0 },
    webhook: { port: webhook.running.port, ca: webhook.ca },
    status,
    metrics: () => Promise.all([proxy.healthPort, webhook.running.healthPort].map(metricsAt)),
    directory: first,
    map,
    stop: async () => {
      leading.abort();
      await Promise.all([loop.stop(), webhook.running.stop(), proxy.stop()]);
    },
  };
}

/** Addresses of targets that never change. */
function fixedAddresses(targets: readonly TargetAddress[]) {
  return {
    start: (onChange: () => void) => onChange(),
    synced: true,
    inactiveMs: 0,
    targets: () => targets,
    reasonOf: () => undefined,
    use() {},
    published: () => targets,
    lead() {},
    stop: async () => {},
  };
}

async function metricsAt(port: number): Promise<string> {
  const response = await fetch(`http://${LOOPBACK}:${port}/metrics`);
  return await response.text();
}

/** A free port for the relay. If another process takes the port first, the demo fails with that error. */
async function freePort(): Promise<number> {
  const server = createServer();
  await listen(server, 0, LOOPBACK);
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

function demoConfig(ingressPort: number, listenPort: number): Config {
  return parseConfig({
    targets: [
      {
        name: TARGET,
        upstream: { host: LOOPBACK },
        ports: [{ port: 80, upstreamPort: ingressPort, protocol: "v1", listenPort }],
        clusterIPs: [LOOPBACK],
      },
    ],
    // Somebody is watching: a removed name should vanish soon, and a shutdown should not take half a minute.
    map: { vanishSeconds: 2 },
    webhook: { address: LOOPBACK, port: 0, healthPort: 0 },
    proxy: { address: LOOPBACK, healthPort: 0, drainSeconds: 1 },
  });
}

/** Starts the webhook with the map of the same process instead of the ConfigMap, and with a new certificate. */
async function startWebhook(
  config: Config,
  maps: MapReader,
  log: Logger,
): Promise<{ running: RunningWebhook; ca: string }> {
  const life = { now: Date.now(), days: 1 };
  const authority = await issueAuthority(life);
  const pair = await issueLeaf(authority, servingNames("switchback-webhook", config.namespace, "cluster.local"), life);
  const stop = async () => {};
  const running = await runWebhook(config, {
    maps,
    certificates: {
      start(found) {
        found(pair);
        return { stop };
      },
    },
    log,
    now: Date.now,
    // The webhook can stop at once: no traffic has to be redirected first.
    pause: async () => {},
  });
  return { running, ca: authority.cert };
}
