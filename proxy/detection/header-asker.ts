import { isIP } from "node:net";
import { portKey } from "#lib/documents/listeners.ts";
import { MAX_ASKED, type ReportedAnswer } from "#lib/documents/proxy-page.ts";
import type { HeaderQuestion } from "#lib/documents/targets-format.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { Clock } from "../clock.ts";
import { type HostLookup, LOOKUP_TIMEOUT_MS } from "../host-resolver.ts";
import { askOnce, askRound, type Question, type Round } from "./ask.ts";
import { AskedPort, type Share } from "./asked-port.ts";
import { HEADERS, type Header, type Outcome } from "./dial.ts";

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
  return { host, port: upstreamPort, speaks, name, agent: "switchback-proxy" };
}

/** Minimum interval between two contacts of this proxy, whatever the number of its ports. */
const OWN_MS = 1_000;
/** Minimum interval between two contacts of all proxies together for one namespace: 20 a minute. */
const NAMESPACE_MS = 3_000;
const ALONE: Share = { proxies: 1, place: 0 };

/**
 * Asks ingress controllers whether they expect a PROXY header. Every proxy asks every port, at its fraction of the
 * limits. AskedPort says when a port is due and how it is asked.
 */
export class HeaderAsker {
  readonly #deps: HeaderAskerDeps;
  readonly #ports = new Map<string, AskedPort>();
  /** The times of the last contacts, by namespace. A new target must not renew the share of its namespace. */
  readonly #last = new Map<string, number>();
  #lastOfAll = Number.NEGATIVE_INFINITY;
  #share: Share = ALONE;
  readonly #abort = new AbortController();
  #cancel = (): void => {};

  constructor(deps: HeaderAskerDeps) {
    this.#deps = deps;
  }

  /** Replaces the questions. */
  setQuestions(all: readonly HeaderQuestion[], share = ALONE): void {
    if (this.#signal.aborted) return;
    const { clock, random } = this.#deps;
    const now = clock.now();
    this.#share = share;
    const questions = new Map(all.slice(0, MAX_ASKED).map((each) => [keyOf(each), each]));
    for (const key of this.#ports.keys()) if (!questions.has(key)) this.#ports.delete(key);
    for (const [key, question] of questions) {
      const port = this.#ports.get(key);
      // What was seen at another upstream does not count.
      if (port?.asks(question)) port.update(question, share, now);
      else this.#ports.set(key, new AskedPort(question, share, now, random));
    }
    this.#startDue();
  }

  answers(): ReportedAnswer[] {
    return [...this.#ports.values()].flatMap((port) => port.report() ?? []);
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
   * The port to contact now, or the time at which to look again. The namespace that waits longest is first. In it, a
   * port that needs a round is before those that need only a recheck. Infinity: no port is left.
   */
  #next(now: number): AskedPort | number {
    let earliest = Number.POSITIVE_INFINITY;
    let best: readonly [port: AskedPort, order: readonly number[]] | undefined;
    for (const port of this.#ports.values()) {
      if (port.isBusy) continue;
      const last = this.#last.get(port.question.namespace) ?? Number.NEGATIVE_INFINITY;
      const startAt = Math.max(port.dueAt, last + NAMESPACE_MS * this.#share.proxies, this.#lastOfAll + OWN_MS);
      earliest = Math.min(earliest, startAt);
      if (startAt > now) continue;
      const order = [last, port.kind === "round" ? 0 : 1, port.dueAt];
      if (best === undefined || isBefore(order, best[1])) best = [port, order];
    }
    return best?.[0] ?? earliest;
  }

  async #contact(port: AskedPort, now: number): Promise<void> {
    const { question } = port;
    const { ask, clock } = this.#deps;
    this.#last.set(question.namespace, now);
    this.#lastOfAll = now;
    port.isBusy = true;
    if (port.kind === "recheck" && (await this.#isAnswered(port))) port.confirm(clock.now());
    else {
      const round = await this.#connect(port, (address) => ask(question, address, this.#signal));
      if (!this.#signal.aborted) this.#conclude(port, round);
    }
    port.isBusy = false;
    this.#startDue();
  }

  async #isAnswered(port: AskedPort): Promise<boolean> {
    const { question, header } = port;
    const outcome = await this.#connect(port, (address) => this.#deps.dial(question, address, header, this.#signal));
    return outcome?.kind === "answered";
  }

  /** Without a round, nothing could be reached. */
  #conclude(port: AskedPort, round: Round | undefined): void {
    const { clock, log } = this.#deps;
    if (!port.conclude(round, clock.now())) return;
    const seen = round && HEADERS.map((header) => `${header}: ${round.seen[header].kind}`).join(", ");
    log.info({ ...port.report(), seen: seen ?? "no address" }, "new answer of a port to a PROXY header");
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
    const { promise, resolve } = Promise.withResolvers<readonly string[]>();
    const cancel = clock.after(LOOKUP_TIMEOUT_MS, () => resolve([]));
    return Promise.race([lookup(host).catch(() => []), promise]).finally(cancel);
  }

  get #signal(): AbortSignal {
    return this.#abort.signal;
  }
}

function keyOf({ target, port }: HeaderQuestion): string {
  return portKey(target, port);
}

/** Whether the first number that differs is smaller. */
function isBefore(one: readonly number[], other: readonly number[]): boolean {
  const index = one.findIndex((value, at) => value !== other[at]);
  return index >= 0 && (one[index] ?? 0) < (other[index] ?? 0);
}
