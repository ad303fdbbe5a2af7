import { MAX_TARGET_PORTS } from "#lib/config/defaults.ts";
import { upstreamHost } from "#lib/documents/listeners.ts";
import { MAX_ASKED } from "#lib/documents/proxy-page.ts";
import type { PublishedAsk, PublishedTarget } from "#lib/documents/targets-format.ts";
import type { ConfiguredTarget } from "../targets/configured-target.ts";
import type { Protocol } from "../targets/proxy-protocol-annotations.ts";
import type { HeaderReason, TargetCatalog, TargetHeaders, TargetLocations } from "../targets/resolver.ts";
import type { FoundTarget } from "../targets/service-view.ts";
import {
  type AskableTarget,
  askedPorts,
  contradictionOf,
  type DecidedProtocols,
  decideProtocols,
} from "./decide-protocols.ts";
import { HeaderAnswers } from "./header-answers.ts";

/** Maximum number of ports of one namespace that are asked. At 20 rounds a minute, that takes ten minutes. */
const MAX_OF_NAMESPACE = 200;
/** Ports that are asked with TLS. Other ports are asked with HTTP. */
const TLS_PORTS: readonly number[] = [443, 8443];

/**
 * Returns a name of a target: `last` if it still is one. Ingress controllers may close a connection for any other
 * name.
 */
export type ExampleOf = (target: string, last?: string) => string | undefined;

interface AskInput {
  /** The targets that have accepted claims. Those that are asked already stay. */
  readonly inUse: ReadonlySet<string>;
  readonly exampleOf: ExampleOf;
  readonly clusterDomain: string | undefined;
}

interface HeaderDeps {
  readonly catalog: TargetCatalog & Pick<TargetLocations, "mapsAlways">;
  /** The version for ingress controllers that accept both. */
  readonly preferred: "v1" | "v2";
  /** See `HeaderAnswers`. */
  readonly changeMs?: number | undefined;
}

/** The catalog of targets, with the protocol of each port as the answers of the ingress controllers decide. */
export class HeaderDecisions implements TargetCatalog, TargetHeaders {
  readonly answers: HeaderAnswers;
  readonly #deps: HeaderDeps;
  /** The protocols that are published, by target and port. */
  #published: ReadonlyMap<string, ReadonlyMap<number, Protocol>> = new Map();
  #learnt: readonly PublishedTarget[] = [];
  readonly #wanted = new Map<string, Set<number>>();
  readonly #listeners: Array<() => void> = [];

  constructor(deps: HeaderDeps) {
    this.#deps = deps;
    this.answers = new HeaderAnswers(deps.changeMs);
    deps.catalog.follow(() => this.changed());
  }

  get synced(): boolean {
    return this.#deps.catalog.synced;
  }

  get discovers(): boolean {
    return this.#deps.catalog.discovers;
  }

  configured(): readonly ConfiguredTarget[] {
    return this.#deps.catalog.configured().map((target) => this.#decide(target).target);
  }

  /**
   * The target, with the protocol of each port. Undefined also if the proxies neither may relay to it nor do so
   * already.
   */
  found(name: string): FoundTarget | undefined {
    const target = this.#deps.catalog.found(name);
    return target !== undefined && this.mayRelay(name) ? this.#decide(target).target : undefined;
  }

  /** Whether the proxies may relay to a target. If there is a reason against it, only existing relaying continues. */
  mayRelay(name: string): boolean {
    return this.against(name) === undefined || this.#published.has(name);
  }

  /** The target as its Service or the configuration defines it, before any answer. */
  defined(name: string): AskableTarget | undefined {
    const { catalog } = this.#deps;
    return catalog.configured().find((target) => target.name === name) ?? catalog.found(name);
  }

  /** Why the names of a target are not mapped to it; undefined: no answer about a header prevents it. */
  against(name: string): HeaderReason | undefined {
    const target = this.defined(name);
    return target && this.#decide(target).against;
  }

  /** The answer of a port, for the status, with what contradicts it. Undefined: no proxy has asked the port yet. */
  shownAt(name: string, port: number) {
    const seen = this.answers.seenAt(name, port);
    const answer = this.answers.answerOf(name, port) ?? (seen.size > 0 ? "unknown" : undefined);
    const target = this.defined(name);
    if (target === undefined || answer === undefined) return undefined;
    const warning = contradictionOf(target, port, answer, seen);
    return { answer, ...(warning && { warnings: [warning] }) };
  }

  /** Adds ports that an object uses. */
  want(name: string, ports: readonly number[]): void {
    const wanted = this.#wanted.get(name) ?? new Set();
    for (const port of ports) if (wanted.size < MAX_TARGET_PORTS) wanted.add(port);
    this.#wanted.set(name, wanted);
  }

  /** Takes over what is published. See `HeaderAnswers`. */
  learn(published: readonly PublishedTarget[]): void {
    if (published === this.#learnt) return;
    this.#learnt = published;
    this.answers.learn(published);
    const relayed = published.filter(({ ports }) => ports.length > 0);
    this.#published = new Map(
      relayed.map(({ name, ports }) => [name, new Map(ports.map(({ port, protocol }) => [port, protocol]))]),
    );
    this.changed();
  }

  follow(onChange: () => void): void {
    this.#listeners.push(onChange);
  }

  /** Sets the targets that have names. */
  use(names: ReadonlySet<string>): void {
    for (const name of this.#wanted.keys())
      if (!names.has(name) && this.defined(name) === undefined) this.#wanted.delete(name);
  }

  /** Call it after an answer has changed. */
  changed(): void {
    for (const listener of this.#listeners) listener();
  }

  /**
   * Adds the ports to ask to the targets that will be published. Targets that nobody relays yet are added with only
   * these. A target without a name cannot be asked yet.
   */
  withAskedPorts(
    listed: readonly PublishedTarget[],
    { inUse, exampleOf, clusterDomain }: AskInput,
  ): readonly PublishedTarget[] {
    const byName = new Map(listed.map((target) => [target.name, target]));
    const before = new Map(this.#learnt.flatMap(({ name, ask = [] }) => ask.map((each) => [name, each.name] as const)));
    const counts = new Map<string | undefined, number>();
    let left = MAX_ASKED;
    const targets = [...inUse].sort().flatMap((name) => this.defined(name) ?? []);
    for (const target of targets.sort((one, other) => +before.has(other.name) - +before.has(one.name))) {
      const { name, upstream, upstreamIPs } = target;
      const namespace = "service" in upstream ? upstream.service.namespace : undefined;
      const count = counts.get(namespace) ?? 0;
      const last = before.get(name);
      const ask = this.#askOf(target, serverName(exampleOf(name, last)) ?? last);
      ask.length = Math.min(ask.length, left, MAX_OF_NAMESPACE - count);
      if (ask.length === 0) continue;
      left -= ask.length;
      counts.set(namespace, count + ask.length);
      byName.set(name, {
        ...(byName.get(name) ?? { name, ports: [], clusterIPs: [] }),
        upstream: upstreamHost(target, clusterDomain),
        ...(upstreamIPs && { upstreamIPs }),
        ...(namespace !== undefined && { namespace }),
        ask,
      });
    }
    return [...byName.values()];
  }

  #askOf(target: AskableTarget, name: string | undefined): PublishedAsk[] {
    if (name === undefined) return [];
    return askedPorts(target, this.#wanted.get(target.name) ?? NONE).map((entry) => {
      const { port, upstreamPort = port, upstreamIPs } = entry;
      const answer = this.answers.answerOf(target.name, port);
      const speaks = TLS_PORTS.includes(port) ? "tls" : "http";
      return { port, speaks, name, upstreamPort, ...(upstreamIPs && { upstreamIPs }), ...(answer && { answer }) };
    });
  }

  #decide<Target extends AskableTarget>(target: Target): DecidedProtocols<Target> {
    const { catalog, preferred } = this.#deps;
    const { name } = target;
    return decideProtocols(target, {
      answerOf: (port) => this.answers.answerOf(name, port),
      publishedAs: (port) => this.#published.get(name)?.get(port),
      wanted: this.#wanted.get(name) ?? NONE,
      preferred,
      mapsAlways: catalog.mapsAlways(name),
    });
  }
}

const NONE: ReadonlySet<number> = new Set();

/** The name itself, or for a wildcard a name that it covers. */
function serverName(name: string | undefined): string | undefined {
  return name?.replace(/^\*/, "switchback-asks");
}
