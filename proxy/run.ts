import { networkInterfaces } from "node:os";
import type { Config, ProxyConfig } from "#lib/config/schema.ts";
import { type Listener, listenersOf } from "#lib/documents/listeners.ts";
import { LISTENING_PATH, renderListening } from "#lib/documents/proxy-listening-page.ts";
import { listenersOfPublished, type PublishedTargets } from "#lib/documents/targets-format.ts";
import type { TargetsReader } from "#lib/documents/targets-reader.ts";
import { type HealthServer, type Probes, startHealthServer } from "#lib/http/listen.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { chooseEngine } from "./choose-engine.ts";
import { type Clock, systemClock } from "./clock.ts";
import type {
  EngineLimits,
  ListenerSpec,
  ListenerStatus,
  MakeEngine,
  RelayEngine,
  RelaySpec,
  UpstreamSpec,
} from "./engine.ts";
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
  /** File descriptors that other parts of this process may need; connections leave as many free. Default: none. */
  readonly filesOfOthers?: number;
}

export interface RunningProxy {
  /** Bound ports, in the order of the listeners. */
  readonly ports: readonly number[];
  readonly healthPort: number;
  readonly probes: Probes;
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
  // Side by side: the one waits for threads, the other for the API server.
  const [chosen, subscription] = await Promise.all([
    settled(deps.makeEngine ?? chooseEngine(config.proxy, deps.log)),
    deps.targetsReader && subscribeTargets(deps.targetsReader, deps.readMountedTargets ?? (() => undefined), deps.log),
  ]);
  if (chosen.status === "rejected") {
    await subscription?.stop();
    throw chosen.reason;
  }
  const makeEngine = chosen.value;
  const components = assemble(config, { ...deps, makeEngine }, subscription?.initial);
  const { engine, upstreams, selfAddresses, state } = components;
  const probes = probesOf(components);
  const health = await startHealth(config.proxy, components, probes);
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
    probes,
    broken: components.broken,
    listeners: () => engine.listeners(),
    stop: () => {
      state.stopping ??= shutDown(components, health, subscription, deps.log);
      return state.stopping;
    },
  };
}

async function settled<T>(work: T | Promise<T>): Promise<PromiseSettledResult<T>> {
  const [result] = await Promise.allSettled([work]);
  return result;
}

/**
 * Applies published targets. Removals and other addresses apply at once; only a listener whose upstream's name is new waits for its lookup.
 * Connections of unchanged targets are not affected.
 */
function applyTargets(components: ProxyComponents, targets: PublishedTargets, log: Logger): void {
  const { upstreams, selfAddresses, state } = components;
  if (state.stopping !== undefined) return;
  state.listeners = listenersOfPublished(targets);
  selfAddresses.replace(publishedFrontServices(targets));
  void upstreams.setListeners(state.listeners);
  updateEngine(components);
  log.info({ revision: targets.revision, targets: targets.targets.length }, "targets changed");
}

function updateEngine(components: ProxyComponents): void {
  void components.engine.update(components.relaySpec()).then(() => rebindLater(components));
}

function rebindLater(components: ProxyComponents): void {
  const { engine, state, rebindMs } = components;
  clearTimeout(state.rebind);
  if (state.stopping !== undefined || engine.listeners().every(({ bound }) => bound)) return;
  state.rebind = setTimeout(() => updateEngine(components), rebindMs);
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
  const limits = engineLimits(config.proxy, log, deps.filesOfOthers);
  const state: ProxyComponents["state"] = {
    started: false,
    stopping: undefined,
    listeners: deps.listeners ?? configured,
    rebind: undefined,
  };
  const { promise: broken, resolve: onBroken } = Promise.withResolvers<Error>();
  const engine = deps.makeEngine({ limits, log, onDial: (report) => upstreams.report(report), onBroken });
  const onChange = (): void => {
    if (state.started && state.stopping === undefined) updateEngine(components);
  };
  const lookupOptions = { lookup, clock, log, intervalMs: config.proxy.resolveSeconds * 1000, onChange };
  const upstreams = new Upstreams(lookupOptions);
  const services = published ? publishedFrontServices(published) : frontServices(config, clusterDomain);
  const selfAddresses = new SelfAddresses(services, lookupOptions);
  const addresses = deps.interfaceAddresses ?? interfaceAddresses();
  const relaySpec = (): RelaySpec => ({
    listeners: state.listeners.flatMap((listener) => {
      const upstream = upstreams.spec(listener);
      return upstream === undefined ? [] : [listenerSpec(config.proxy, listener, upstream)];
    }),
    self: { interfaceAddresses: addresses, frontEndpoints: selfAddresses.endpoints() },
  });
  const { maxConnections } = limits;
  const drainMs = config.proxy.drainSeconds * 1000;
  const rebindMs = deps.rebindMs ?? REBIND_MS;
  const sizes = { maxConnections, drainMs, rebindMs };
  const components: ProxyComponents = { engine, broken, upstreams, selfAddresses, relaySpec, state, ...sizes };
  return components;
}

function listenerSpec(proxy: ProxyConfig, listener: Listener, upstream: UpstreamSpec): ListenerSpec {
  return {
    name: listenerName(listener),
    target: listener.target,
    address: proxy.address,
    port: listener.listenPort,
    declaredPort: listener.port,
    protocol: listener.protocol,
    // Of a discovered target a tenant may have chosen both the upstream and that it gets no header.
    refusesClientHeaders: listener.protocol === "none" && listener.upstreamIPs !== undefined,
    tlvs: { crc32c: proxy.v2Checksum, uniqueId: proxy.v2UniqueId },
    upstream,
  };
}

function probesOf({ engine, upstreams, state }: ProxyComponents): Probes {
  return {
    live: () => ({ ok: true, text: "ok" }),
    ready: () => {
      const draining = state.stopping !== undefined;
      return relayReadiness(state.started ? engine.listeners() : undefined, upstreams.states(), draining);
    },
  };
}

function startHealth(proxy: ProxyConfig, components: ProxyComponents, probes: Probes): Promise<HealthServer> {
  const { engine, upstreams, state, maxConnections } = components;
  const draining = (): boolean => state.stopping !== undefined;
  return startHealthServer({
    ...probes,
    address: proxy.address,
    port: proxy.healthPort,
    registry: createProxyMetrics({ engine, upstreams: () => upstreams.states(), draining, maxConnections }),
    pages: {
      // The controller reads it before it publishes names that resolve to this proxy.
      [LISTENING_PATH]: {
        render: () => renderListening({ listening: state.started ? listeningTargets(engine.listeners()) : [] }),
      },
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

function engineLimits(proxy: ProxyConfig, log: Logger, filesOfOthers = 0): EngineLimits {
  const maxConnections = clampToFileLimit(proxy.maxConnections, readProcessLimits(), filesOfOthers);
  if (maxConnections < proxy.maxConnections) {
    const fields = { maxConnections, wanted: proxy.maxConnections };
    log.warn(
      fields,
      "the process's limit of open files is lower than maxConnections needs: fewer connections are accepted",
    );
  }
  return {
    maxConnections,
    // In proportion, so that no source gets a larger share than was configured.
    maxConnectionsPerSource: Math.ceil((proxy.maxConnectionsPerSource * maxConnections) / proxy.maxConnections),
    connectTimeoutMs: proxy.connectTimeoutSeconds * 1000,
    idleTimeoutMs: proxy.idleTimeoutSeconds * 1000,
    halfClosedMs: proxy.halfClosedTimeoutSeconds * 1000,
    keepaliveMs: proxy.keepaliveSeconds * 1000,
    firstBytesMs: FIRST_BYTES_MS,
    dropGraceMs: proxy.drainSeconds * 1000,
  };
}

function interfaceAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((entries) => (entries ?? []).map(({ address }) => address));
}
