import { isIP } from "node:net";
import type { HeaderAnswer } from "#lib/documents/header-answers.ts";
import { portKey } from "#lib/documents/listeners.ts";
import { MAX_ASKED, type ReportedAnswer } from "#lib/documents/proxy-page.ts";
import type { HeaderQuestion } from "#lib/documents/targets-format.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { Clock } from "../clock.ts";
import { type HostLookup, LOOKUP_TIMEOUT_MS } from "../host-resolver.ts";
import { askOnce, askRound, type Question, type Round } from "./ask.ts";
import { AskedPort } from "./asked-port.ts";
import type { Header, Outcome } from "./outcome.ts";

export interface HeaderAskerDeps {
  /** Makes one round. Ends in bounded time. */
  readonly ask: (question: HeaderQuestion, address: string, signal: AbortSignal) => Promise<Round>;
  /** Makes one connection of a round. */
  readonly dial: (question: HeaderQuestion, address: string, header: Header, signal: AbortSignal) => Promise<Outcome>;
  readonly lookup: HostLookup;
  /** Whether this address and port lead to this proxy. */
  readonly isSelf: (address: string, port: number) => boolean;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
}

/** Asks over the network. */
export const CONNECTIONS: Pick<HeaderAskerDeps, "ask" | "dial"> = {
  ask: (question, address, signal) => askRound(askedOf(question, address), { signal }),
  dial: (question, address, header, signal) => askOnce(askedOf(question, address), header, { signal }),
};

function askedOf({ upstreamPort, speaks, name }: HeaderQuestion, host: string): Question {
  return { host, port: upstreamPort, speaks, name, asks: "switchback-proxy" };
}

const NO_ADDRESS: Outcome = { kind: "unreachable", detail: "no address" };
const NOTHING_REACHED: Round = {
  answer: "unknown",
  reachable: false,
  seen: { none: NO_ADDRESS, v1: NO_ADDRESS, v2: NO_ADDRESS },
};

/** Minimum intervals between two contacts of this proxy, whatever the number of its ports. */
const OWN_MS = { round: 1_000, recheck: 6_000 } as const;
/** Minimum interval between two rounds of all proxies together for one namespace: 20 a minute. */
const NAMESPACE_ROUND_MS = 3_000;
/** Contacts that are so long ago limit nothing any more. Multiplied by the number of proxies. */
const FORGET_MS = 60_000;

/**
 * Asks ingress controllers whether they expect a PROXY header. Every proxy asks every port, at its fraction of the
 * limits. AskedPort says when a port is due and how it is asked.
 */
export class HeaderAsker {
  readonly #deps: HeaderAskerDeps;
  readonly #ports = new Map<string, AskedPort>();
  /** The times of the last contacts of each kind: of a namespace, and of this proxy as "". */
  readonly #last = { round: new Map<string, number>(), recheck: new Map<string, number>() };
  #proxies = 1;
  readonly #rounds = new Map<HeaderAnswer, number>();
  /** Running lookups. Two lookups of one name share the answer, because each occupies one of libuv's few threads. */
  readonly #lookups = new Map<string, Promise<readonly string[]>>();
  readonly #abort = new AbortController();
  #cancel = (): void => {};

  constructor(deps: HeaderAskerDeps) {
    this.#deps = deps;
  }

  /** Replaces the questions. `proxies` is the number of proxies that share the limits. */
  setQuestions(all: readonly HeaderQuestion[], proxies = 1): void {
    if (this.#signal.aborted) return;
    const { clock, random } = this.#deps;
    const now = clock.now();
    this.#proxies = Math.max(1, proxies);
    const questions = new Map(all.slice(0, MAX_ASKED).map((each) => [keyOf(each), each]));
    for (const key of this.#ports.keys()) if (!questions.has(key)) this.#ports.delete(key);
    for (const [key, question] of questions) {
      const port = this.#ports.get(key);
      // What was seen at another upstream does not count.
      if (port?.asks(question)) port.update(question, this.#proxies, now);
      else this.#ports.set(key, new AskedPort(question, this.#proxies, now, random));
    }
    // A new target must not renew the share of its namespace, so only old times are forgotten.
    for (const times of Object.values(this.#last))
      for (const [key, at] of times) if (at + FORGET_MS * this.#proxies < now) times.delete(key);
    this.#startDue();
  }

  answers(): ReportedAnswer[] {
    return [...this.#ports.values()].flatMap((port) => port.report() ?? []);
  }

  /** Number of completed rounds by answer. */
  rounds(): ReadonlyMap<HeaderAnswer, number> {
    return this.#rounds;
  }

  /** Ends the connections and asks nothing more. */
  stop(): void {
    this.#abort.abort();
    this.#cancel();
  }

  /** Starts the contacts that are due and allowed, and waits for the next one. */
  #startDue(): void {
    const { clock } = this.#deps;
    this.#cancel();
    if (this.#signal.aborted) return;
    for (;;) {
      const now = clock.now();
      const next = this.#next(now);
      if (typeof next !== "number") {
        void this.#contact(next, now);
        continue;
      }
      if (Number.isFinite(next)) this.#cancel = clock.after(next - now, () => this.#startDue());
      return;
    }
  }

  /**
   * The port to contact now, or the time at which to look again. The namespace that waits longest is first, and in it
   * the port that has been due longest. Infinity: no port is left.
   */
  #next(now: number): AskedPort | number {
    let earliest = Number.POSITIVE_INFINITY;
    let best: { readonly port: AskedPort; readonly last: number } | undefined;
    for (const port of this.#ports.values()) {
      if (port.isBusy) continue;
      const { kind, question } = port;
      const last = this.#lastOf(kind, keyOfNamespace(question));
      const freeAt = kind === "round" ? last + NAMESPACE_ROUND_MS * this.#proxies : 0;
      const startAt = Math.max(port.dueAt, freeAt, this.#lastOf(kind, "") + OWN_MS[kind]);
      earliest = Math.min(earliest, startAt);
      if (startAt > now) continue;
      if (best === undefined || last < best.last || (last === best.last && port.dueAt < best.port.dueAt))
        best = { port, last };
    }
    return best?.port ?? earliest;
  }

  async #contact(port: AskedPort, now: number): Promise<void> {
    const { kind, question, header } = port;
    const { ask, clock, dial } = this.#deps;
    for (const key of ["", keyOfNamespace(question)]) this.#last[kind].set(key, now);
    port.isBusy = true;
    if (kind === "round") {
      const round = await this.#connect(port, (address) => ask(question, address, this.#signal));
      if (!this.#signal.aborted) this.#concludeRound(port, round ?? NOTHING_REACHED);
    } else {
      const outcome = await this.#connect(port, (address) => dial(question, address, header, this.#signal));
      port.recheck(outcome?.kind === "answered", clock.now());
    }
    port.isBusy = false;
    this.#startDue();
  }

  #concludeRound(port: AskedPort, round: Round): void {
    const { clock, log } = this.#deps;
    const { answer, seen } = round;
    this.#rounds.set(answer, (this.#rounds.get(answer) ?? 0) + 1);
    const { contradicts } = port;
    if (!port.conclude(round, clock.now())) return;
    const kinds = (["none", "v1", "v2"] as const).map((header) => `${header}: ${seen[header].kind}`);
    log.info({ ...port.report(), seen: kinds.join(", ") }, "new answer of a port to a PROXY header");
    if (!contradicts && port.contradicts) this.#askSiblings(port.question, clock.now());
  }

  /** The ports of an ingress controller often change together, because one setting decides for all of them. */
  #askSiblings({ target, port }: HeaderQuestion, now: number): void {
    for (const sibling of this.#ports.values())
      if (sibling.question.target === target && sibling.question.port !== port) sibling.askNow(now);
  }

  /** Undefined if there is no address to connect to, or after an error, which is logged. */
  async #connect<Found>(port: AskedPort, run: (address: string) => Promise<Found>): Promise<Found | undefined> {
    try {
      const address = port.choose(await this.#addressesOf(port.question));
      return address === undefined ? undefined : await run(address);
    } catch (err) {
      this.#deps.log.error({ err: describeError(err) }, "PROXY header detection failed");
      return undefined;
    }
  }

  /** The upstream's addresses, without those that lead to this proxy. Empty if the name does not resolve in time. */
  async #addressesOf({ upstream, upstreamIPs, upstreamPort }: HeaderQuestion): Promise<readonly string[]> {
    const addresses = upstreamIPs ?? (isIP(upstream) === 0 ? await this.#lookUp(upstream) : [upstream]);
    return addresses.filter((address) => !this.#deps.isSelf(address, upstreamPort));
  }

  #lookUp(host: string): Promise<readonly string[]> {
    const { lookup, clock } = this.#deps;
    const found =
      this.#lookups.get(host) ??
      lookup(host)
        .catch(() => [])
        .finally(() => this.#lookups.delete(host));
    this.#lookups.set(host, found);
    const { promise, resolve } = Promise.withResolvers<readonly string[]>();
    const cancel = clock.after(LOOKUP_TIMEOUT_MS, () => resolve([]));
    return Promise.race([found, promise]).finally(cancel);
  }

  #lastOf(kind: "round" | "recheck", key: string): number {
    return this.#last[kind].get(key) ?? Number.NEGATIVE_INFINITY;
  }

  get #signal(): AbortSignal {
    return this.#abort.signal;
  }
}

function keyOf({ target, port }: HeaderQuestion): string {
  return portKey(target, port);
}

function keyOfNamespace({ namespace }: HeaderQuestion): string {
  return `of ${namespace}`;
}
