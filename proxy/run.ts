import { networkInterfaces } from "node:os";
import type { Config, ProxyConfig } from "../config/schema.ts";
import { type Listener, listenersOf } from "../snapshot/listeners.ts";
import { LISTENING_PATH, renderListening } from "../snapshot/proxy-listening-page.ts";
import { listenersOfPublished, type PublishedTargets } from "../snapshot/targets-format.ts";
import type { TargetsReader } from "../snapshot/targets-reader.ts";
import { type HealthServer, startHealthServer } from "../telemetry/health.ts";
import type { Logger } from "../telemetry/log.ts";
import { chooseEngine } from "./choose-engine.ts";
import { type Clock, systemClock } from "./clock.ts";
import type { EngineLimits, ListenerStatus, MakeEngine, RelayEngine, RelaySpec } from "./engine.ts";
import { clampToFileLimit, readProcessLimits } from "./file-limit.ts";
import { type HostLookup, systemLookup } from "./host-resolver.ts";
import { createProxyMetrics } from "./metrics.ts";
import { relayReadiness } from "./readiness.ts";
import { frontServices, publishedFrontServices, SelfAddresses } from "./self-addresses.ts";
import { subscribeTargets, type TargetsSubscription } from "./subscribe-targets.ts";
import { listenerName, Upstreams } from "./upstream.ts";

/** How long the header waits for the client's first bytes before it is sent alone. Usually they arrive first: a client sends as soon as its
 * handshake is complete, while the proxy still dials. Only preconnected clients and protocols whose server sends first wait: those get the
 * server's greeting this much later, once per connection. */
const FIRST_BYTES_MS = 50;

/** Retry interval for a listener that could not be bound because its port was in use. */
const REBIND_MS = 5_000;

/** Dependencies of the proxy; all but the log have a default. */
export interface ProxyDeps {
  readonly log: Logger;
  /** Default: the config's; without one, the pod's search list completes names. */
  readonly clusterDomain?: string | undefined;
  /** Addresses of this pod or machine. Default: those of its network interfaces. */
  readonly interfaceAddresses?: readonly string[];
  /** Default: those of the published targets, or without `targetsReader` of the config's targets. */
  readonly listeners?: readonly Listener[];
  /** Reads published targets; without it only the config's targets are used. */
  readonly targetsReader?: TargetsReader;
  /** Targets for a start without an answer from `targetsReader`. */
  readonly readMountedTargets?: () => PublishedTargets | undefined;
  /** Overrides REBIND_MS in tests. */
  readonly rebindMs?: number;
  readonly lookup?: HostLookup;
  readonly clock?: Clock;
  readonly makeEngine?: MakeEngine;
}

export interface RunningProxy {
  /** Bound ports, in the order of the listeners. */
  readonly ports: readonly number[];
  readonly healthPort: number;
  /** Resolves if a part of the engine dies: the process should stop, so that it is restarted. */
  readonly broken: Promise<Error>;
  listeners(): readonly ListenerStatus[];
  /**
   * Fails readiness, stops accepting, lets connections finish for `drainSeconds` and resets the rest. To be called once clients no longer
   * reach this replica: in a cluster, a preStop sleep gives kube-proxy that time before SIGTERM.
   */
  stop(): Promise<void>;
}

/**
 * Runs one proxy replica. The health server starts first. Listeners are bound after the first lookup of each upstream's name, even if it
 * failed: an upstream may appear later. Throws `listen-failed`, `engine-unavailable`.
 */
export async function runProxy(config: Config, deps: ProxyDeps): Promise<RunningProxy> {
  const makeEngine = deps.makeEngine ?? (await chooseEngine(config.proxy, deps.log));
  const subscription =
    deps.targetsReader &&
    (await subscribeTargets(deps.targetsReader, deps.readMountedTargets ?? (() => undefined), deps.log));
  const components = assemble(config, { ...deps, makeEngine }, subscription?.initial);
  const { engine, upstreams, selfAddresses, state } = components;
  const health = await startHealth(config.proxy, components);
  try {
    await Promise.all([upstreams.setListeners(state.listeners), selfAddresses.firstLookup]);
    await engine.start(components.relaySpec());
  } catch (error) {
    upstreams.stop();
    selfAddresses.stop();
    await subscription?.stop();
    await health.close();
    throw error;
  }
  state.started = true;
  await engine.update(components.relaySpec());
  const bound = engine.listeners();
  for (const { name, address, port } of bound) deps.log.info({ listener: name, address, port }, "listening");
  if (bound.length === 0) deps.log.warn({}, "no target has a port with the PROXY protocol: nothing to relay");
  subscription?.subscribe((targets) => applyTargets(components, targets, deps.log));
  return {
    ports: bound.map(({ port }) => port),
    healthPort: health.port,
    broken: components.broken,
    listeners: () => engine.listeners(),
    stop: () => {
      state.stopping ??= shutDown(components, health, subscription, deps.log);
      return state.stopping;
    },
  };
}

/** Applies published targets, one document at a time. Connections of unchanged targets are not affected. */
function applyTargets(components: ProxyComponents, targets: PublishedTargets, log: Logger): void {
  const { engine, upstreams, selfAddresses, state } = components;
  state.changing = state.changing.then(async () => {
    if (state.stopping !== undefined) return;
    const listeners = listenersOfPublished(targets);
    selfAddresses.replace(publishedFrontServices(targets));
    await upstreams.setListeners(listeners);
    state.listeners = listeners;
    await engine.update(components.relaySpec());
    log.info({ revision: targets.revision, targets: targets.targets.length }, "targets changed");
    rebindLater(components);
  });
}

function rebindLater(components: ProxyComponents): void {
  const { engine, state, rebindMs } = components;
  clearTimeout(state.rebind);
  if (state.stopping !== undefined || engine.listeners().every(({ bound }) => bound)) return;
  state.rebind = setTimeout(() => {
    void engine.update(components.relaySpec()).then(() => rebindLater(components));
  }, rebindMs);
}

interface ProxyComponents {
  readonly engine: RelayEngine;
  readonly broken: Promise<Error>;
  readonly upstreams: Upstreams;
  readonly selfAddresses: SelfAddresses;
  readonly relaySpec: () => RelaySpec;
  readonly maxConnections: number;
  readonly drainMs: number;
  readonly rebindMs: number;
  readonly state: {
    started: boolean;
    stopping: Promise<void> | undefined;
    listeners: readonly Listener[];
    /** Changes of targets run one at a time. */
    changing: Promise<void>;
    rebind: NodeJS.Timeout | undefined;
  };
}

function assemble(
  config: Config,
  deps: ProxyDeps & { readonly makeEngine: MakeEngine },
  published: PublishedTargets | undefined,
): ProxyComponents {
  const { log, clock = systemClock, lookup = systemLookup } = deps;
  const clusterDomain = deps.clusterDomain ?? config.clusterDomain;
  const configured = published ? listenersOfPublished(published) : listenersOf(config.targets, clusterDomain);
  const limits = engineLimits(config.proxy, log);
  const state: ProxyComponents["state"] = {
    started: false,
    stopping: undefined,
    listeners: deps.listeners ?? configured,
    changing: Promise.resolve(),
    rebind: undefined,
  };
  const { promise: broken, resolve: onBroken } = Promise.withResolvers<Error>();
  const engine = deps.makeEngine({ limits, log, onDial: (report) => upstreams.report(report), onBroken });
  const onChange = (): void => {
    if (state.started && state.stopping === undefined) void engine.update(relaySpec());
  };
  const lookupOptions = { lookup, clock, log, intervalMs: config.proxy.resolveSeconds * 1000, onChange };
  const upstreams = new Upstreams(lookupOptions);
  const services = published ? publishedFrontServices(published) : frontServices(config, clusterDomain);
  const selfAddresses = new SelfAddresses(services, lookupOptions);
  const addresses = deps.interfaceAddresses ?? interfaceAddresses();
  const relaySpec = (): RelaySpec => ({
    listeners: state.listeners.map((listener) => ({
      name: listenerName(listener),
      target: listener.target,
      address: config.proxy.address,
      port: listener.listenPort,
      declaredPort: listener.port,
      protocol: listener.protocol,
      tlvs: { crc32c: config.proxy.v2Checksum, uniqueId: config.proxy.v2UniqueId },
      upstream: upstreams.spec(listener),
    })),
    self: { interfaceAddresses: addresses, frontEndpoints: selfAddresses.endpoints() },
  });
  const { maxConnections } = limits;
  const drainMs = config.proxy.drainSeconds * 1000;
  const rebindMs = deps.rebindMs ?? REBIND_MS;
  return { engine, broken, upstreams, selfAddresses, relaySpec, maxConnections, drainMs, rebindMs, state };
}

function startHealth(proxy: ProxyConfig, components: ProxyComponents): Promise<HealthServer> {
  const { engine, upstreams, state, maxConnections } = components;
  const draining = (): boolean => state.stopping !== undefined;
  return startHealthServer({
    address: proxy.address,
    port: proxy.healthPort,
    live: () => ({ ok: true, text: "ok" }),
    ready: () => relayReadiness(state.started ? engine.listeners() : undefined, upstreams.states(), draining()),
    registry: createProxyMetrics({ engine, upstreams: () => upstreams.states(), draining, maxConnections }),
    pages: {
      // The controller reads it before it publishes names that resolve to this proxy.
      [LISTENING_PATH]: () => renderListening({ listening: state.started ? listeningTargets(engine.listeners()) : [] }),
    },
  });
}

/** The targets all of whose listeners are bound. */
function listeningTargets(listeners: readonly ListenerStatus[]): string[] {
  const unbound = new Set(listeners.filter(({ bound }) => !bound).map(({ target }) => target));
  return [...new Set(listeners.map(({ target }) => target))].filter((target) => !unbound.has(target)).sort();
}

async function shutDown(
  components: ProxyComponents,
  health: HealthServer,
  subscription: TargetsSubscription | undefined,
  log: Logger,
): Promise<void> {
  clearTimeout(components.state.rebind);
  await subscription?.stop();
  const result = await components.engine.drain(components.drainMs);
  log.info(result, "drained");
  components.upstreams.stop();
  components.selfAddresses.stop();
  await health.close();
}

function engineLimits(proxy: ProxyConfig, log: Logger): EngineLimits {
  const maxConnections = clampToFileLimit(proxy.maxConnections, readProcessLimits());
  if (maxConnections < proxy.maxConnections) {
    const fields = { maxConnections, wanted: proxy.maxConnections };
    log.warn(
      fields,
      "the process's limit of open files is lower than maxConnections needs: fewer connections are accepted",
    );
  }
  return {
    maxConnections,
    maxConnectionsPerSource: proxy.maxConnectionsPerSource,
    connectTimeoutMs: proxy.connectTimeoutSeconds * 1000,
    idleTimeoutMs: proxy.idleTimeoutSeconds * 1000,
    keepaliveMs: proxy.keepaliveSeconds * 1000,
    firstBytesMs: FIRST_BYTES_MS,
    dropGraceMs: proxy.drainSeconds * 1000,
  };
}

function interfaceAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((entries) => (entries ?? []).map(({ address }) => address));
}
