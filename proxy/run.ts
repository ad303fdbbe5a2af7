import { networkInterfaces } from "node:os";
import type { Config, ProxyConfig } from "../config/schema.ts";
import { type Listener, listenersOf } from "../snapshot/listeners.ts";
import { LISTENING_PATH, renderListening } from "../snapshot/listening-page.ts";
import { listenersOfPublished, type PublishedTargets } from "../snapshot/targets-format.ts";
import type { TargetsReader } from "../snapshot/targets-reader.ts";
import { type HealthServer, startHealthServer } from "../telemetry/health.ts";
import type { Logger } from "../telemetry/log.ts";
import { chooseEngine } from "./choose-engine.ts";
import { type Clock, systemClock } from "./clock.ts";
import type { EngineLimits, ListenerStatus, MakeEngine, RelayEngine, RelaySpec } from "./engine.ts";
import { affordableConnections, readProcessLimits } from "./file-limit.ts";
import { followTargets, type TargetsSubscription } from "./follow-targets.ts";
import { type HostLookup, systemLookup } from "./host-resolver.ts";
import { createProxyMetrics } from "./metrics.ts";
import { relayReadiness } from "./readiness.ts";
import { frontServices, frontsOfPublished, SelfAddresses } from "./self-addresses.ts";
import { listenerName, Upstreams } from "./upstream.ts";

/** How long the header waits for the client's first bytes before it goes out alone. In most connections they are there first: a client speaks as soon
 * as its handshake is done, while we still dial. What waits is a client that opens ahead of need, and one whose server speaks first: it gets its
 * greeting this much later, once a connection. */
const FIRST_BYTES_MS = 50;

/** A listener that could not be bound (its port was taken) is tried again after this time. */
const REBIND_MS = 5_000;

/** What the proxy needs from outside; all but the log has a default. */
export interface ProxyDeps {
  readonly log: Logger;
  /** Default: the config's, else none, and the pod's search list completes names. */
  readonly clusterDomain?: string | undefined;
  /** Addresses of this pod or machine. Default: those of its network interfaces. */
  readonly interfaceAddresses?: readonly string[];
  /** Default: those of the feed, and without one derived from the config's targets. */
  readonly listeners?: readonly Listener[];
  /** Where targets are followed from; none: the config's are all. */
  readonly feed?: TargetsReader;
  /** Targets for a start in which the feed does not answer. */
  readonly mounted?: () => PublishedTargets | undefined;
  /** How soon a listener that could not be bound is tried again; another value only in tests. */
  readonly rebindMs?: number;
  readonly lookup?: HostLookup;
  readonly clock?: Clock;
  readonly makeEngine?: MakeEngine;
}

export interface RunningProxy {
  /** Bound ports, in the order of the listeners. */
  readonly ports: readonly number[];
  readonly healthPort: number;
  /** Resolves if a part of the engine dies: the process should stop and be started anew. */
  readonly broken: Promise<Error>;
  listeners(): readonly ListenerStatus[];
  /**
   * Fails readiness, stops accepting, lets connections finish for `drainSeconds` and resets the rest. To be called once callers
   * are led elsewhere: in a cluster a preStop sleep gives kube-proxy the time for it before SIGTERM comes.
   */
  stop(): Promise<void>;
}

/**
 * One proxy replica. Its health server answers first; its listeners are bound once each upstream's name has been looked up, whatever
 * came of it: an upstream that is not there yet is no reason not to start. Throws `listen-failed`, `engine-unavailable`.
 */
export async function runProxy(config: Config, deps: ProxyDeps): Promise<RunningProxy> {
  const makeEngine = deps.makeEngine ?? (await chooseEngine(config.proxy, deps.log));
  const following = deps.feed && (await followTargets(deps.feed, deps.mounted ?? (() => undefined), deps.log));
  const parts = assemble(config, { ...deps, makeEngine }, following?.first);
  const { engine, upstreams, fronts, state } = parts;
  const health = await startHealth(config.proxy, parts);
  try {
    await Promise.all([upstreams.setListeners(state.listeners), fronts.first]);
    await engine.start(parts.plan());
  } catch (error) {
    upstreams.stop();
    fronts.stop();
    await following?.stop();
    await health.close();
    throw error;
  }
  state.started = true;
  await engine.update(parts.plan());
  const bound = engine.listeners();
  for (const { name, address, port } of bound) deps.log.info({ listener: name, address, port }, "listening");
  if (bound.length === 0) deps.log.warn({}, "no target wants a PROXY header on any port: nothing to relay");
  following?.follow((targets) => retarget(parts, targets, deps.log));
  return {
    ports: bound.map(({ port }) => port),
    healthPort: health.port,
    broken: parts.broken,
    listeners: () => engine.listeners(),
    stop: () => {
      state.stopping ??= shutDown(parts, health, following, deps.log);
      return state.stopping;
    },
  };
}

/** Goes over to other targets, one document after the other. Connections of those that stay notice nothing. */
function retarget(parts: Parts, targets: PublishedTargets, log: Logger): void {
  const { engine, upstreams, fronts, state } = parts;
  state.changing = state.changing.then(async () => {
    if (state.stopping !== undefined) return;
    const listeners = listenersOfPublished(targets);
    fronts.set(frontsOfPublished(targets));
    await upstreams.setListeners(listeners);
    state.listeners = listeners;
    await engine.update(parts.plan());
    log.info({ revision: targets.revision, targets: targets.targets.length }, "targets changed");
    rebindLater(parts);
  });
}

function rebindLater(parts: Parts): void {
  const { engine, state, rebindMs } = parts;
  clearTimeout(state.rebind);
  if (state.stopping !== undefined || engine.listeners().every(({ bound }) => bound)) return;
  state.rebind = setTimeout(() => {
    void engine.update(parts.plan()).then(() => rebindLater(parts));
  }, rebindMs);
}

interface Parts {
  readonly engine: RelayEngine;
  readonly broken: Promise<Error>;
  readonly upstreams: Upstreams;
  readonly fronts: SelfAddresses;
  readonly plan: () => RelaySpec;
  readonly maxConnections: number;
  readonly drainMs: number;
  readonly rebindMs: number;
  readonly state: {
    started: boolean;
    stopping: Promise<void> | undefined;
    listeners: readonly Listener[];
    /** Changes of targets, one after the other. */
    changing: Promise<void>;
    rebind: NodeJS.Timeout | undefined;
  };
}

function assemble(
  config: Config,
  deps: ProxyDeps & { readonly makeEngine: MakeEngine },
  published: PublishedTargets | undefined,
): Parts {
  const { log, clock = systemClock, lookup = systemLookup } = deps;
  const clusterDomain = deps.clusterDomain ?? config.clusterDomain;
  const configured = published ? listenersOfPublished(published) : listenersOf(config.targets, clusterDomain);
  const limits = limitsOf(config.proxy, log);
  const state: Parts["state"] = {
    started: false,
    stopping: undefined,
    listeners: deps.listeners ?? configured,
    changing: Promise.resolve(),
    rebind: undefined,
  };
  const { promise: broken, resolve: onBroken } = Promise.withResolvers<Error>();
  const engine = deps.makeEngine({ limits, log, onDial: (report) => upstreams.report(report), onBroken });
  const onChange = (): void => {
    if (state.started && state.stopping === undefined) void engine.update(plan());
  };
  const resolving = { lookup, clock, log, intervalMs: config.proxy.resolveSeconds * 1000, onChange };
  const upstreams = new Upstreams(resolving);
  const services = published ? frontsOfPublished(published) : frontServices(config, clusterDomain);
  const fronts = new SelfAddresses(services, resolving);
  const interfaces = deps.interfaceAddresses ?? interfaceAddresses();
  const plan = (): RelaySpec => ({
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
    self: { interfaceAddresses: interfaces, frontEndpoints: fronts.endpoints() },
  });
  const { maxConnections } = limits;
  const drainMs = config.proxy.drainSeconds * 1000;
  const rebindMs = deps.rebindMs ?? REBIND_MS;
  return { engine, broken, upstreams, fronts, plan, maxConnections, drainMs, rebindMs, state };
}

function startHealth(proxy: ProxyConfig, parts: Parts): Promise<HealthServer> {
  const { engine, upstreams, state, maxConnections } = parts;
  const draining = (): boolean => state.stopping !== undefined;
  return startHealthServer({
    address: proxy.address,
    port: proxy.healthPort,
    live: () => ({ ok: true, text: "ok" }),
    ready: () => relayReadiness(state.started ? engine.listeners() : undefined, upstreams.states(), draining()),
    registry: createProxyMetrics({ engine, upstreams: () => upstreams.states(), draining, maxConnections }),
    pages: {
      // The controller asks it before it lets names lead here.
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
  parts: Parts,
  health: HealthServer,
  following: TargetsSubscription | undefined,
  log: Logger,
): Promise<void> {
  clearTimeout(parts.state.rebind);
  await following?.stop();
  const result = await parts.engine.drain(parts.drainMs);
  log.info(result, "drained");
  parts.upstreams.stop();
  parts.fronts.stop();
  await health.close();
}

function limitsOf(proxy: ProxyConfig, log: Logger): EngineLimits {
  const maxConnections = affordableConnections(proxy.maxConnections, readProcessLimits());
  if (maxConnections < proxy.maxConnections) {
    const fields = { maxConnections, wanted: proxy.maxConnections };
    log.warn(fields, "the process may open fewer files than maxConnections needs: fewer connections are taken");
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
