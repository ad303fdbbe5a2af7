import { getOrAdd } from "#hostmap/multi-map.ts";
import type { Reason } from "#hostmap/types.ts";
import { MAX_TARGET_PORTS } from "#lib/config/defaults.ts";
import { upstreamHost } from "#lib/documents/listeners.ts";
import { MAX_ASKED } from "#lib/documents/proxy-page.ts";
import type { PublishedAsk, PublishedTarget } from "#lib/documents/targets-format.ts";
import type { Target } from "../targets/target.ts";
import type { TargetTable } from "../targets/target-table.ts";
import { askedPorts, contradictionOf, type DecidedProtocols, decideProtocols } from "./decide-protocols.ts";
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

interface HeaderDeps {
  readonly catalog: Pick<TargetTable, "configured" | "discovers" | "found" | "follow" | "mapsAlways" | "synced">;
  readonly clusterDomain: string | undefined;
  /** The version for ingress controllers that accept both. */
  readonly preferred: "v1" | "v2";
  /** See `HeaderAnswers`. */
  readonly changeMs?: number | undefined;
}

/** The targets, with the protocol of each port as the answers of the ingress controllers decide. */
export class HeaderDecisions {
  readonly answers: HeaderAnswers;
  readonly catalog: HeaderDeps["catalog"];
  readonly #deps: HeaderDeps;
  #learnt: readonly PublishedTarget[] = [];
  /** The published targets, by name. */
  #published: ReadonlyMap<string, PublishedTarget> = new Map();
  readonly #wanted = new Map<string, Set<number>>();
  readonly #listeners: Array<() => void> = [];
  /** By target, since the last change. A pass asks for the decision on a target once for each of its names. */
  readonly #decided = new Map<string, DecidedProtocols | undefined>();

  constructor(deps: HeaderDeps) {
    this.#deps = deps;
    this.catalog = deps.catalog;
    this.answers = new HeaderAnswers(deps.changeMs);
    deps.catalog.follow(() => this.changed());
  }

  /** A configured or discovered target. */
  targetOf(name: string): Target | undefined {
    return this.#decisionOn(name)?.target;
  }

  /** The same, but if there is a reason against it, only existing relaying continues. */
  relayable(name: string): Target | undefined {
    const isRelayed = (this.#published.get(name)?.ports ?? []).length > 0;
    return this.against(name) === undefined || isRelayed ? this.targetOf(name) : undefined;
  }

  /** Why the names of a target are not mapped to it; undefined: no answer about a header prevents it. */
  against(name: string): Reason | undefined {
    return this.#decisionOn(name)?.against;
  }

  /** The answer of a port, for the status, with what contradicts it. Undefined: no proxy has asked the port yet. */
  shownAt(name: string, port: number) {
    const seen = this.answers.seenAt(name, port);
    const answer = this.answers.answerOf(name, port) ?? (seen.size > 0 ? "unknown" : undefined);
    const target = this.targetOf(name);
    if (target === undefined || answer === undefined) return undefined;
    const warning = contradictionOf(target, port, answer, seen);
    return { answer, ...(warning && { warnings: [warning] }) };
  }

  /** Adds ports that an object uses. */
  want(name: string, ports: readonly number[]): void {
    const wanted = getOrAdd(this.#wanted, name, () => new Set<number>());
    const { size } = wanted;
    for (const port of ports) if (wanted.size < MAX_TARGET_PORTS) wanted.add(port);
    if (wanted.size > size) this.#decided.delete(name);
  }

  /** Takes over what is published. See `HeaderAnswers`. */
  learn(published: readonly PublishedTarget[]): void {
    if (published === this.#learnt) return;
    this.#learnt = published;
    this.answers.learn(published);
    this.#published = new Map(published.map((target) => [target.name, target]));
    this.changed();
  }

  follow(onChange: () => void): void {
    this.#listeners.push(onChange);
  }

  /** Sets the targets that have names. */
  use(names: ReadonlySet<string>): void {
    for (const name of this.#wanted.keys())
      if (!names.has(name) && this.#decisionOn(name) === undefined) this.#wanted.delete(name);
  }

  /** Call it after an answer has changed. */
  changed(): void {
    this.#decided.clear();
    for (const listener of this.#listeners) listener();
  }

  /**
   * Adds the ports to ask to the targets that will be published. Targets that nobody relays yet are added with only
   * these. A target without a name cannot be asked yet. Of those in use, the ones that are asked already come first.
   */
  withAskedPorts(
    listed: readonly PublishedTarget[],
    inUse: ReadonlySet<string>,
    exampleOf: ExampleOf,
  ): readonly PublishedTarget[] {
    const byName = new Map(listed.map((target) => [target.name, target]));
    const nameBefore = (target: string) => this.#published.get(target)?.ask?.[0]?.name;
    const isNew = ({ name }: Target) => Number(nameBefore(name) === undefined);
    const counts = new Map<string | undefined, number>();
    let left = MAX_ASKED;
    const targets = [...inUse].sort().flatMap((name) => this.targetOf(name) ?? []);
    for (const target of targets.sort((one, other) => isNew(one) - isNew(other))) {
      const { name, upstream, upstreamIPs } = target;
      const namespace = "service" in upstream ? upstream.service.namespace : undefined;
      const count = counts.get(namespace) ?? 0;
      const last = nameBefore(name);
      const ask = this.#askOf(target, serverName(exampleOf(name, last)) ?? last);
      ask.length = Math.min(ask.length, left, MAX_OF_NAMESPACE - count);
      if (ask.length === 0) continue;
      left -= ask.length;
      counts.set(namespace, count + ask.length);
      byName.set(name, {
        ...(byName.get(name) ?? { name, ports: [], clusterIPs: [] }),
        upstream: upstreamHost(target, this.#deps.clusterDomain),
        ...(upstreamIPs && { upstreamIPs }),
        ...(namespace !== undefined && { namespace }),
        ask,
      });
    }
    return [...byName.values()];
  }

  #askOf(target: Target, name: string | undefined): PublishedAsk[] {
    if (name === undefined) return [];
    return askedPorts(target, this.#wanted.get(target.name) ?? NONE).map((entry) => {
      const { port, upstreamPort = port, upstreamIPs } = entry;
      const answer = this.answers.answerOf(target.name, port);
      const speaks = TLS_PORTS.includes(port) ? "tls" : "http";
      return { port, speaks, name, upstreamPort, ...(upstreamIPs && { upstreamIPs }), ...(answer && { answer }) };
    });
  }

  /** Undefined: there is no target of this name. */
  #decisionOn(name: string): DecidedProtocols | undefined {
    return getOrAdd(this.#decided, name, () => {
      const { catalog } = this;
      const target = catalog.configured().find((each) => each.name === name) ?? catalog.found(name);
      return (
        target &&
        decideProtocols(target, {
          answerOf: (port) => this.answers.answerOf(name, port),
          publishedAs: (port) => this.#published.get(name)?.ports.find((each) => each.port === port)?.protocol,
          wanted: this.#wanted.get(name) ?? NONE,
          preferred: this.#deps.preferred,
          mapsAlways: catalog.mapsAlways(name),
        })
      );
    });
  }
}

const NONE: ReadonlySet<number> = new Set();

/** The name itself, or for a wildcard a name that it covers. */
function serverName(name: string | undefined): string | undefined {
  return name?.replace(/^\*/, "switchback-asks");
}
