import { MAX_TARGET_PORTS } from "#lib/config/defaults.ts";
import { type HeaderQuestion, type PublishedAnswer, questionKey } from "#lib/documents/header-questions.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import type { ConfiguredTarget } from "../targets/configured-target.ts";
import type { Protocol } from "../targets/proxy-protocol-annotations.ts";
import type { HeaderReason, TargetCatalog, TargetHeaders } from "../targets/resolver.ts";
import type { FoundTarget } from "../targets/service-view.ts";
import { contradictionsOf, type HeaderContradiction } from "./contradictions.ts";
import { type AskableTarget, type DecidedProtocols, decideProtocols } from "./decide-protocols.ts";

/** A known answer of a port. */
interface AskedPort extends PublishedAnswer {
  readonly target: string;
  readonly port: number;
}

interface HeaderDeps {
  readonly catalog: TargetCatalog;
  readonly mapsAlways: (target: string) => boolean;
  /** The version for ingress controllers that accept both. */
  readonly preferred: "v1" | "v2";
}

/**
 * Decides which header each port of a target gets, by the answers of the ingress controllers. Every replica uses the
 * same answers: those of the published questions.
 */
export class HeaderDecisions implements TargetCatalog, TargetHeaders {
  readonly #deps: HeaderDeps;
  /** The published questions that have an answer. */
  #known: ReadonlyMap<string, AskedPort> = new Map();
  #published: ReadonlyMap<string, ReadonlyMap<number, Protocol>> = new Map();
  /** The published answers and protocols as text, to detect changes. */
  #learnt = "";
  readonly #wanted = new Map<string, Set<number>>();
  readonly #listeners: Array<() => void> = [];

  constructor(deps: HeaderDeps) {
    this.#deps = deps;
    deps.catalog.follow(() => this.#notify());
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

  /** The target as its Service or the configuration defines it, for the questions. */
  defined(name: string): AskableTarget | undefined {
    const { catalog } = this.#deps;
    return catalog.configured().find((target) => target.name === name) ?? catalog.found(name);
  }

  /** Why the names of a target are not mapped to it; undefined: no answer about a header prevents it. */
  against(name: string): HeaderReason | undefined {
    const target = this.defined(name);
    return target && this.#decide(target).against;
  }

  /** The answer of a target's port, with its time and proxy; undefined: no answer is known. */
  answerOf(name: string, port: number): AskedPort | undefined {
    return this.#known.get(questionKey({ target: name, port }));
  }

  /** The settings and answers that contradict the known answers. */
  contradictions(): HeaderContradiction[] {
    return [...this.#known.values()].flatMap((known) => {
      const target = this.defined(known.target);
      return target === undefined ? [] : contradictionsOf(target, known.port, known);
    });
  }

  /** Adds ports that an object uses. */
  want(name: string, ports: readonly number[]): void {
    const wanted = this.#wanted.get(name) ?? new Set();
    for (const port of ports) if (wanted.size < MAX_TARGET_PORTS) wanted.add(port);
    this.#wanted.set(name, wanted);
  }

  wantedOf(name: string): ReadonlySet<number> {
    return this.#wanted.get(name) ?? NONE;
  }

  /** Takes over the published answers and targets. */
  learn(questions: readonly HeaderQuestion[], published: readonly PublishedTarget[]): void {
    const known = new Map(
      questions.flatMap((each) =>
        each.known ? [[questionKey(each), { ...each.known, target: each.target, port: each.port }] as const] : [],
      ),
    );
    const relayed = published.map(
      ({ name, ports }) => [name, ports.map(({ port, protocol }) => [port, protocol] as const)] as const,
    );
    this.#known = known;
    this.#published = new Map(relayed.map(([name, ports]) => [name, new Map(ports)]));
    const learnt = JSON.stringify([[...known].map(([key, { answer }]) => [key, answer]), relayed]);
    if (learnt === this.#learnt) return;
    this.#learnt = learnt;
    this.#notify();
  }

  follow(onChange: () => void): void {
    this.#listeners.push(onChange);
  }

  use(names: ReadonlySet<string>): void {
    const { catalog } = this.#deps;
    catalog.use(names);
    for (const name of this.#wanted.keys())
      if (!names.has(name) && this.defined(name) === undefined) this.#wanted.delete(name);
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }

  #decide<Target extends AskableTarget>(target: Target): DecidedProtocols<Target> {
    const { mapsAlways, preferred } = this.#deps;
    const { name } = target;
    return decideProtocols(target, {
      answerOf: (port) => this.answerOf(name, port)?.answer,
      publishedAs: (port) => this.#published.get(name)?.get(port),
      wanted: this.wantedOf(name),
      preferred,
      mapsAlways: mapsAlways(name),
    });
  }
}

const NONE: ReadonlySet<number> = new Set();
