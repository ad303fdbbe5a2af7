import { isIP } from "node:net";
import type { HeaderAnswer } from "#lib/documents/header-answers.ts";
import { portKey } from "#lib/documents/listeners.ts";
import { MAX_ASKED, type ReportedAnswer } from "#lib/documents/proxy-page.ts";
import type { HeaderQuestion } from "#lib/documents/targets-format.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { Clock } from "../clock.ts";
import type { DialReport } from "../engine.ts";
import { type HostLookup, LOOKUP_TIMEOUT_MS } from "../host-resolver.ts";
import { askOnce, askRound, type Question, type Round } from "./ask.ts";
import { AskedPort } from "./asked-port.ts";
import type { Header, Outcome } from "./outcome.ts";
import { RoundBudget } from "./round-budget.ts";

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

/**
 * Asks ingress controllers whether they expect a PROXY header. Every proxy asks every port, at its fraction of the
 * limits. AskedPort says when a port is due and how it is asked, RoundBudget which namespace may be asked.
 */
export class HeaderAsker {
  readonly #deps: HeaderAskerDeps;
  readonly #ports = new Map<string, AskedPort>();
  readonly #budget = new RoundBudget();
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
    const sharing = Math.max(1, proxies);
    const questions = new Map(all.slice(0, MAX_ASKED).map((each) => [keyOf(each), each]));
    for (const key of this.#ports.keys()) if (!questions.has(key)) this.#ports.delete(key);
    for (const [key, question] of questions) {
      const port = this.#ports.get(key);
      if (port === undefined) this.#ports.set(key, new AskedPort(question, sharing, now, random));
      else port.update(question, sharing, now);
    }
    this.#budget.update(sharing, now);
    this.#startDue();
  }

  answers(): ReportedAnswer[] {
    return [...this.#ports.values()].flatMap((port) => port.report() ?? []);
  }

  /** Number of completed rounds by answer. */
  rounds(): ReadonlyMap<HeaderAnswer, number> {
    return this.#rounds;
  }

  /** Handles an engine's report. Asks a port again when its dials begin to fail, or succeed again. */
  dialled({ listener, connected, failures }: DialReport): void {
    const result = connected ? "connected" : failures.at(-1)?.cause;
    if (this.#ports.get(listener)?.dialled(result, this.#deps.clock.now())) this.#startDue();
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
   * the port that has been due longest. Infinity: another event must come first, such as the end of a round.
   */
  #next(now: number): AskedPort | number {
    let earliest = Number.POSITIVE_INFINITY;
    let best: { readonly port: AskedPort; readonly last: number } | undefined;
    for (const port of this.#ports.values()) {
      if (port.isBusy) continue;
      const { namespace } = port.question;
      const isRound = port.needsRound(Math.max(now, port.dueAt));
      const startAt = Math.max(port.dueAt, this.#budget.freeAt(namespace, isRound));
      earliest = Math.min(earliest, startAt);
      if (startAt > now) continue;
      const last = this.#budget.lastOf(namespace, isRound);
      if (best === undefined || last < best.last || (last === best.last && port.dueAt < best.port.dueAt))
        best = { port, last };
    }
    return best?.port ?? earliest;
  }

  async #contact(port: AskedPort, now: number): Promise<void> {
    const { question, header } = port;
    const { ask, dial } = this.#deps;
    const isRound = port.needsRound(now);
    const end = this.#budget.start(question.namespace, isRound, now);
    port.isBusy = true;
    if (isRound) {
      const asked = await this.#connect(question, port, (address) => ask(question, address, this.#signal));
      if (!this.#signal.aborted) this.#concludeRound(port, question, asked ?? NOTHING_REACHED);
    } else {
      const outcome = await this.#connect(question, port, (address) => dial(question, address, header, this.#signal));
      if (this.#isAsked(port, question)) port.recheck(outcome?.kind === "answered", this.#deps.clock.now());
    }
    port.isBusy = false;
    end();
    this.#startDue();
  }

  #concludeRound(port: AskedPort, question: HeaderQuestion, round: Round): void {
    const { clock, log } = this.#deps;
    const { answer, seen } = round;
    this.#rounds.set(answer, (this.#rounds.get(answer) ?? 0) + 1);
    // If the question has changed meanwhile, this answer does not count, and the new question gets its own round.
    if (!this.#isAsked(port, question)) return;
    if (port.conclude(round, clock.now())) {
      const kinds = (["none", "v1", "v2"] as const).map((header) => `${header}: ${seen[header].kind}`);
      log.info({ ...port.report(), seen: kinds.join(", ") }, "new answer of a port to a PROXY header");
    }
    if (port.contradicts) this.#askSiblings(question, clock.now());
  }

  /** The ports of an ingress controller often change together, because one setting decides for all of them. */
  #askSiblings({ target, port }: HeaderQuestion, now: number): void {
    for (const sibling of this.#ports.values()) {
      if (sibling.question.target !== target || sibling.question.port === port || sibling.contradicts) continue;
      sibling.askAgain(now);
    }
  }

  /** Undefined if there is no address to connect to, or after an error, which is logged. */
  async #connect<Found>(
    question: HeaderQuestion,
    port: AskedPort,
    run: (address: string) => Promise<Found>,
  ): Promise<Found | undefined> {
    try {
      const address = port.choose(await this.#addressesOf(question));
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

  /** Whether the answer to this question still counts. */
  #isAsked(port: AskedPort, question: HeaderQuestion): boolean {
    return !this.#signal.aborted && this.#ports.get(keyOf(question)) === port && port.asks(question);
  }

  get #signal(): AbortSignal {
    return this.#abort.signal;
  }
}

function keyOf({ target, port }: HeaderQuestion): string {
  return portKey(target, port);
}
