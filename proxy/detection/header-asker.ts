import {
  type HeaderAnswer,
  type HeaderQuestion,
  questionKey,
  type ReportedAnswer,
} from "#lib/documents/header-questions.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { normalAddress } from "../address.ts";
import type { Clock } from "../clock.ts";
import type { DialReport } from "../engine.ts";
import type { HostLookup } from "../host-resolver.ts";
import { Addresses } from "./addresses.ts";
import { askOnce, askRound, type Question, type Round } from "./ask.ts";
import { AskedPort } from "./asked-port.ts";
import type { Header, Outcome } from "./outcome.ts";
import { RecheckOrder, recheckDelay } from "./recheck-order.ts";
import { RoundBudget } from "./round-budget.ts";

export interface HeaderAskerDeps {
  /** Makes one round. Ends in bounded time. */
  readonly ask: (question: HeaderQuestion, address: string, signal: AbortSignal) => Promise<Round>;
  /** Makes one connection of a round. */
  readonly dial: (question: HeaderQuestion, address: string, header: Header, signal: AbortSignal) => Promise<Outcome>;
  readonly lookup: HostLookup;
  /** Whether this address and port lead to this proxy. */
  readonly isSelf: (address: string, port: number) => boolean;
  /** This proxy asks the questions that name one of these addresses. */
  readonly ownAddresses: readonly string[];
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
 * Asks ingress controllers whether they expect a PROXY header. AskedPort decides when a port is due, and RoundBudget
 * which port is next. Between rounds, a single connection (a recheck) tests from time to time whether the known
 * answer still holds.
 */
export class HeaderAsker {
  readonly #deps: HeaderAskerDeps;
  readonly #own: ReadonlySet<string>;
  readonly #ports = new Map<string, AskedPort>();
  readonly #budget = new RoundBudget();
  readonly #rechecks = new RecheckOrder();
  readonly #rounds = new Map<HeaderAnswer, number>();
  readonly #addresses: Addresses;
  readonly #abort = new AbortController();
  #cancelRound = (): void => {};
  #cancelRecheck: (() => void) | undefined;

  constructor(deps: HeaderAskerDeps) {
    this.#deps = deps;
    this.#own = new Set(deps.ownAddresses.map(normalAddress));
    this.#addresses = new Addresses(deps);
  }

  /** Replaces the questions. Ignores questions for other proxies. */
  setQuestions(questions: readonly HeaderQuestion[]): void {
    if (this.#signal.aborted) return;
    const { clock, random } = this.#deps;
    const now = clock.now();
    const own = questions.filter(({ asker }) => this.#own.has(normalAddress(asker)));
    const keys = new Set(own.map(questionKey));
    for (const key of this.#ports.keys()) if (!keys.has(key)) this.#ports.delete(key);
    for (const question of own) {
      const key = questionKey(question);
      const port = this.#ports.get(key);
      if (port === undefined) this.#ports.set(key, new AskedPort(question, now, random));
      else port.update(question, now);
    }
    this.#budget.forget(now);
    this.#startRounds();
    this.#scheduleRecheck();
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
    if (this.#ports.get(listener)?.dialled(result, this.#deps.clock.now())) this.#startRounds();
  }

  /** Ends the connections and asks nothing more. */
  stop(): void {
    this.#abort.abort();
    this.#cancelRound();
    this.#cancelRecheck?.();
  }

  /** Starts the rounds that are due and allowed, and waits for the next one. */
  #startRounds(): void {
    const { clock } = this.#deps;
    this.#cancelRound();
    if (this.#signal.aborted) return;
    for (;;) {
      const now = clock.now();
      const next = this.#budget.next(this.#ports.values(), now);
      if (typeof next !== "number") {
        void this.#round(next, now);
        continue;
      }
      if (Number.isFinite(next)) this.#cancelRound = clock.after(next - now, () => this.#startRounds());
      return;
    }
  }

  async #round(port: AskedPort, now: number): Promise<void> {
    const { question } = port;
    const { ask, clock, log } = this.#deps;
    port.isBusy = true;
    this.#budget.start(port, now);
    const round = (await this.#connect(port, (address) => ask(question, address, this.#signal))) ?? NOTHING_REACHED;
    port.isBusy = false;
    this.#budget.end(question.namespace);
    if (this.#signal.aborted) return;
    this.#rounds.set(round.answer, (this.#rounds.get(round.answer) ?? 0) + 1);
    // If the question has changed meanwhile, this answer does not count, and the new question gets its own round.
    if (this.#isAsked(port, question)) {
      if (port.conclude(round, clock.now())) {
        log.info({ ...port.report(), seen: port.seen }, "new answer of a port to a PROXY header");
      }
      if (port.isDoubted) this.#askSiblings(question, clock.now());
    }
    this.#startRounds();
  }

  /** The ports of an ingress controller often change together, because one setting decides for all of them. */
  #askSiblings({ target, port }: HeaderQuestion, now: number): void {
    for (const sibling of this.#ports.values()) {
      if (sibling.question.target !== target || sibling.question.port === port || sibling.isDoubted) continue;
      sibling.askAgain(now);
    }
  }

  #scheduleRecheck(): void {
    if (this.#cancelRecheck !== undefined || this.#ports.size === 0) return;
    const { clock, random } = this.#deps;
    this.#cancelRecheck = clock.after(recheckDelay(this.#ports.size, random), () => {
      this.#cancelRecheck = undefined;
      if (this.#signal.aborted) return;
      const port = this.#rechecks.next(this.#ports.values(), clock.now());
      if (port !== undefined) void this.#recheck(port);
      this.#scheduleRecheck();
    });
  }

  async #recheck(port: AskedPort): Promise<void> {
    const { question, recheckHeader = "none" } = port;
    const { dial, clock } = this.#deps;
    port.contactAt = clock.now();
    const outcome = await this.#connect(port, (address) => dial(question, address, recheckHeader, this.#signal));
    if (this.#signal.aborted || outcome?.kind === "answered") return;
    // If rounds have begun meanwhile, they decide instead of this recheck.
    if (!this.#isAsked(port, question) || port.recheckHeader === undefined) return;
    port.askNow(clock.now());
    this.#startRounds();
  }

  /** Undefined if there is no address to connect to, or after an error, which is logged. */
  async #connect<Found>(port: AskedPort, run: (address: string) => Promise<Found>): Promise<Found | undefined> {
    try {
      const address = port.choose(await this.#addresses.of(port.question));
      return address === undefined ? undefined : await run(address);
    } catch (err) {
      this.#deps.log.error({ err: describeError(err) }, "PROXY header detection failed");
      return undefined;
    }
  }

  /** Whether the answer to this question still counts. */
  #isAsked(port: AskedPort, question: HeaderQuestion): boolean {
    return this.#ports.get(questionKey(question)) === port && port.asks(question);
  }

  get #signal(): AbortSignal {
    return this.#abort.signal;
  }
}
