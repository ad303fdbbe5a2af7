import type { ProxyConfig } from "#lib/config/schema.ts";
import type { Listener } from "#lib/documents/listeners.ts";
import { listenersOfPublished, type PublishedTargets } from "#lib/documents/targets-format.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { ListenerSpec, ListenerStatus, RelayEngine, RelaySpec, SelfEndpoints, UpstreamSpec } from "./engine.ts";
import { publishedFrontServices, type SelfAddresses } from "./self-addresses.ts";
import { listenerName, type Upstreams } from "./upstream.ts";

type ListenerSettings = Pick<ProxyConfig, "address" | "v2Checksum" | "v2UniqueId">;

interface EngineUpdaterOptions {
  readonly engine: RelayEngine;
  readonly upstreams: Upstreams;
  readonly selfAddresses: SelfAddresses;
  /** Addresses of this pod or machine. */
  readonly interfaceAddresses: readonly string[];
  /** The listeners to start with. */
  readonly listeners: readonly Listener[];
  readonly settings: ListenerSettings;
  /** The retry interval for a listener whose port is in use. */
  readonly rebindMs: number;
  readonly log: Logger;
}

/** Starts the engine. Updates it when the targets, their upstreams' addresses or the proxy's own addresses change. */
export class EngineUpdater {
  readonly #options: EngineUpdaterOptions;
  #phase: "starting" | "running" | "stopping" = "starting";
  #listeners: readonly Listener[];
  #rebindTimer: NodeJS.Timeout | undefined;

  constructor(options: EngineUpdaterOptions) {
    this.#options = options;
    this.#listeners = options.listeners;
  }

  /**
   * Binds the listeners after the first lookup of each upstream's name, even if it failed: an upstream may appear
   * later. Throws `listen-failed`.
   */
  async start(): Promise<void> {
    const { engine, upstreams, selfAddresses } = this.#options;
    await Promise.all([upstreams.setListeners(this.#listeners), selfAddresses.firstLookup]);
    await engine.start(this.#spec());
    this.#phase = "running";
    upstreams.subscribe(() => this.#update());
    selfAddresses.subscribe(() => this.#update());
    // Addresses may have changed while the engine started.
    await engine.update(this.#spec());
  }

  /**
   * Applies published targets. Removals and changed addresses apply at once. Only a listener whose upstream has a new
   * name waits for the lookup of that name. Connections of unchanged targets are not affected.
   */
  apply(targets: PublishedTargets): void {
    const { upstreams, selfAddresses, log } = this.#options;
    if (this.#phase !== "running") return;
    this.#listeners = listenersOfPublished(targets);
    selfAddresses.replace(publishedFrontServices(targets));
    void upstreams.setListeners(this.#listeners);
    this.#update();
    log.info({ revision: targets.revision, targets: targets.targets.length }, "targets changed");
  }

  /** Undefined until the engine has started. */
  listeners(): readonly ListenerStatus[] | undefined {
    return this.#phase === "starting" ? undefined : this.#options.engine.listeners();
  }

  /** The addresses that lead to this proxy. */
  self(): SelfEndpoints {
    const { selfAddresses, interfaceAddresses } = this.#options;
    return { interfaceAddresses, frontEndpoints: selfAddresses.endpoints() };
  }

  get isStopping(): boolean {
    return this.#phase === "stopping";
  }

  /** Ends the updates. The caller drains the engine. */
  stop(): void {
    this.#phase = "stopping";
    clearTimeout(this.#rebindTimer);
  }

  #update(): void {
    if (this.#phase !== "running") return;
    void this.#options.engine.update(this.#spec()).then(() => this.#scheduleRebind());
  }

  #scheduleRebind(): void {
    clearTimeout(this.#rebindTimer);
    if (this.#phase !== "running" || this.#options.engine.listeners().every(({ bound }) => bound)) return;
    this.#rebindTimer = setTimeout(() => this.#update(), this.#options.rebindMs);
  }

  #spec(): RelaySpec {
    const { upstreams, settings } = this.#options;
    return {
      listeners: this.#listeners.flatMap((listener) => {
        const upstream = upstreams.spec(listener);
        return upstream === undefined ? [] : [listenerSpec(settings, listener, upstream)];
      }),
      self: this.self(),
    };
  }
}

function listenerSpec(settings: ListenerSettings, listener: Listener, upstream: UpstreamSpec): ListenerSpec {
  return {
    name: listenerName(listener),
    target: listener.target,
    address: settings.address,
    port: listener.listenPort,
    declaredPort: listener.port,
    protocol: listener.protocol,
    // A tenant may have chosen the upstream of a discovered target, and that this upstream gets no header.
    refusesClientHeaders: listener.protocol === "none" && listener.upstreamIPs !== undefined,
    tlvs: { crc32c: settings.v2Checksum, uniqueId: settings.v2UniqueId },
    upstream,
  };
}
