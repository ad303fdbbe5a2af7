import { networkInterfaces } from "node:os";
import type { Config, ProxyConfig } from "#lib/config/schema.ts";
import { type Listener, listenersOf } from "#lib/documents/listeners.ts";
import { PROXY_PAGE, renderProxyPage } from "#lib/documents/proxy-page.ts";
import { listenersOfPublished, type PublishedTargets, questionsOfPublished } from "#lib/documents/targets-format.ts";
import type { TargetsReader } from "#lib/documents/targets-reader.ts";
import { type HealthServer, type Probes, startHealthServer } from "#lib/http/listen.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { chooseEngine } from "./choose-engine.ts";
import { type Clock, systemClock } from "./clock.ts";
import { askOnce, askRound } from "./detection/ask.ts";
import { shareOf } from "./detection/asked-port.ts";
import { HeaderAsker } from "./detection/header-asker.ts";
import type { DialReport, EngineLimits, ListenerStatus, MakeEngine, RelayEngine } from "./engine.ts";
import { engineLimits } from "./engine-limits.ts";
import { EngineUpdater } from "./engine-updater.ts";
import { type HostLookup, systemLookup } from "./host-resolver.ts";
import { isSelf } from "./is-self.ts";
import { createProxyMetrics } from "./metrics.ts";
import { relayReadiness } from "./readiness.ts";
import { frontServices, publishedFrontServices, SelfAddresses } from "./self-addresses.ts";
import { subscribeTargets, type TargetsSubscription } from "./subscribe-targets.ts";
import { Upstreams } from "./upstream.ts";

/** Longest time between two DNS look-ups of the upstream: a Service that is created again has another ClusterIP. */
const RESOLVE_MS = 30_000;
const REBIND_MS = 5_000;

/** Dependencies of the proxy. All but the log have a default. */
export interface ProxyDeps {
  readonly log: Logger;
  /** Default: the config's cluster domain. If neither is set, the pod's search list completes names. */
  readonly clusterDomain?: string | undefined;
  /** Addresses of this pod or machine. Default: those of its network interfaces. */
  readonly interfaceAddresses?: readonly string[];
  /** Default: the listeners of the published targets or, without `targetsReader`, of the config's targets. */
  readonly listeners?: readonly Listener[];
  /** Reads published targets. Without it, only the config's targets are used. */
  readonly targetsReader?: TargetsReader;
  /** Returns the targets to start with if `targetsReader` does not answer. */
  readonly readMountedTargets?: () => PublishedTargets | undefined;
  /** Overrides REBIND_MS in tests. */
  readonly rebindMs?: number;
  readonly lookup?: HostLookup;
  readonly clock?: Clock;
  readonly makeEngine?: MakeEngine;
  /** File descriptors that other parts of this process may need. Connections leave them free. Default: 0. */
  readonly filesOfOthers?: number;
}

export interface RunningProxy {
  /** Bound ports, in the order of the listeners. */
  readonly ports: readonly number[];
  readonly healthPort: number;
  readonly probes: Probes;
  /** Resolves if a part of the engine dies. The process should then stop, so that it is restarted. */
  readonly broken: Promise<Error>;
  listeners(): readonly ListenerStatus[];
  /**
   * Fails readiness, stops accepting, lets connections finish for `drainSeconds` and resets the rest. Call it when
   * clients no longer reach this replica: in a cluster, a preStop sleep gives kube-proxy that time before SIGTERM.
   */
  stop(): Promise<void>;
}

/**
 * Runs one proxy replica. The health server starts before the listeners. Throws `listen-failed`, `engine-unavailable`.
 */
export async function runProxy(config: Config, deps: ProxyDeps): Promise<RunningProxy> {
  const { log } = deps;
  const { makeEngine, subscription } = await prepare(config, deps);
  const limits = engineLimits(config.proxy, log, deps.filesOfOthers);
  const { promise: broken, resolve: onBroken } = Promise.withResolvers<Error>();
  const parts = createParts(config, deps, subscription?.initial, (onDial) =>
    makeEngine({ limits, log, onDial, onBroken }),
  );
  const { engine, upstreams, selfAddresses, updater, asker } = parts;
  const { probes, health } = await startHealth(config.proxy, limits, parts);
  const stopLookups = (): void => {
    upstreams.stop();
    selfAddresses.stop();
  };

  try {
    await updater.start();
  } catch (error) {
    stopLookups();
    await subscription?.stop();
    await health.close();
    throw error;
  }
  const bound = engine.listeners();
  for (const { name, address, port } of bound) log.info({ listener: name, address, port }, "listening");
  if (bound.length === 0) log.warn({}, "no target has a port with the PROXY protocol: nothing to relay");
  const ask = (targets: PublishedTargets): void => {
    const { interfaceAddresses: own } = updater.self();
    asker.setQuestions(questionsOfPublished(targets), shareOf(targets.proxies, own));
  };
  if (subscription?.initial !== undefined) ask(subscription.initial);
  subscription?.subscribe((targets) => {
    updater.apply(targets);
    ask(targets);
  });

  const shutDown = async (): Promise<void> => {
    updater.stop();
    asker.stop();
    // The API server may be slow: draining does not wait for it.
    const stopped = subscription?.stop();
    log.info(await engine.drain(config.proxy.drainSeconds * 1000), "drained");
    await stopped;
    stopLookups();
    await health.close();
  };
  let stopping: Promise<void> | undefined;
  return {
    ports: bound.map(({ port }) => port),
    healthPort: health.port,
    probes,
    broken,
    listeners: () => engine.listeners(),
    stop: () => {
      stopping ??= shutDown();
      return stopping;
    },
  };
}

interface RelayParts {
  readonly engine: RelayEngine;
  readonly upstreams: Upstreams;
  readonly selfAddresses: SelfAddresses;
  readonly updater: EngineUpdater;
  readonly asker: HeaderAsker;
}

/** Creates the engine and the parts that provide its addresses. */
function createParts(
  config: Config,
  deps: ProxyDeps,
  published: PublishedTargets | undefined,
  engineFor: (onDial: (report: DialReport) => void) => RelayEngine,
): RelayParts {
  const { log, clock = systemClock, lookup = systemLookup } = deps;
  const inputs = relayInputs(config, deps, published);
  const lookups = { lookup, clock, log, intervalMs: RESOLVE_MS };
  const ownAddresses = deps.interfaceAddresses ?? interfaceAddresses();
  const upstreams = new Upstreams(lookups);
  const selfAddresses = new SelfAddresses(inputs.frontServices, lookups);
  const engine = engineFor((report) => upstreams.report(report));
  const updater = new EngineUpdater({
    engine,
    upstreams,
    selfAddresses,
    interfaceAddresses: ownAddresses,
    listeners: inputs.listeners,
    settings: config.proxy,
    rebindMs: deps.rebindMs ?? REBIND_MS,
    log,
  });
  const asker = new HeaderAsker({
    ask: askRound,
    dial: askOnce,
    isSelf: (address, port) => isSelf(address, port, updater.self(), boundListeners(engine)),
    random: Math.random,
    lookup,
    clock,
    log,
  });
  return { engine, upstreams, selfAddresses, updater, asker };
}

function boundListeners(engine: RelayEngine): ListenerStatus[] {
  return engine.listeners().filter(({ bound }) => bound);
}

/** Chooses the engine and waits for the first targets. */
async function prepare(
  { proxy }: Config,
  { log, makeEngine, targetsReader, readMountedTargets = () => undefined }: ProxyDeps,
): Promise<{ makeEngine: MakeEngine; subscription: TargetsSubscription | undefined }> {
  // In parallel: one waits for threads, the other for the API server.
  const [chosen, subscribed] = await Promise.allSettled([
    makeEngine ?? chooseEngine(proxy, log),
    targetsReader && subscribeTargets(targetsReader, readMountedTargets, log),
  ]);
  if (subscribed.status === "rejected") throw subscribed.reason;
  const subscription = subscribed.value;
  if (chosen.status === "fulfilled") return { makeEngine: chosen.value, subscription };
  await subscription?.stop();
  throw chosen.reason;
}

/** Serves probes, metrics, and the pages that the controller reads. */
async function startHealth(
  { address, healthPort }: ProxyConfig,
  { maxConnections }: EngineLimits,
  { engine, upstreams, updater, asker }: RelayParts,
): Promise<{ probes: Probes; health: HealthServer }> {
  const draining = (): boolean => updater.isStopping;
  const probes: Probes = {
    live: () => ({ ok: true, text: "ok" }),
    ready: () => relayReadiness(updater.listeners(), upstreams.states(), draining()),
  };
  const health = await startHealthServer({
    ...probes,
    address,
    port: healthPort,
    registry: createProxyMetrics({ engine, upstreams: () => upstreams.states(), draining, maxConnections }),
    pages: {
      // The controller reads this page before it publishes names that resolve to this proxy.
      [PROXY_PAGE]: {
        render: () => renderProxyPage({ listening: listeningTargets(updater), answers: asker.answers() }),
      },
    },
  });
  return { probes, health };
}

/** The listeners and front Services to start with: of the published targets, or of the config's. */
function relayInputs(config: Config, deps: ProxyDeps, published: PublishedTargets | undefined) {
  const clusterDomain = deps.clusterDomain ?? config.clusterDomain;
  const listeners = published ? listenersOfPublished(published) : listenersOf(config.targets, clusterDomain);
  return {
    listeners: deps.listeners ?? listeners,
    frontServices: published ? publishedFrontServices(published) : frontServices(config, clusterDomain),
  };
}

/** The targets whose listeners are all bound. */
function listeningTargets(updater: EngineUpdater): string[] {
  const listeners = updater.listeners() ?? [];
  const unbound = new Set(listeners.filter(({ bound }) => !bound).map(({ target }) => target));
  return [...new Set(listeners.map(({ target }) => target))].filter((target) => !unbound.has(target)).sort();
}

function interfaceAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((entries) => (entries ?? []).map(({ address }) => address));
}
