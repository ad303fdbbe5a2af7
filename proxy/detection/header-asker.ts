import { isIP } from "node:net";
import { MAX_ASKED, type ReportedAnswer } from "#lib/documents/proxy-page.ts";
import type { HeaderQuestion } from "#lib/documents/targets-format.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { Clock } from "../clock.ts";
import { type HostLookup, LOOKUP_TIMEOUT_MS } from "../host-resolver.ts";
import type { Question, Round } from "./ask.ts";
import { AskedPort, type Share } from "./asked-port.ts";
import { HEADERS, type Header, type Outcome } from "./dial.ts";

/** A question, with the address to connect to. */
export type AskedQuestion = HeaderQuestion & Question;

interface Limits {
  readonly signal: AbortSignal;
}

export interface HeaderAskerDeps {
  /** Makes one round: `askRound`. */
  readonly ask: (question: AskedQuestion, limits: Limits) => Promise<Round>;
  /** Makes one connection of a round: `askOnce`. */
  readonly dial: (question: AskedQuestion, header: Header, limits: Limits) => Promise<Outcome>;
  readonly lookup: HostLookup;
  /** Whether this address and port lead to this proxy. */
  readonly isSelf: (address: string, port: number) => boolean;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
}

/** Minimum interval between two contacts of this proxy, whatever the number of its ports. */
const OWN_MS = 1_000;
/** Minimum interval between two contacts of all proxies together for one namespace: 20 a minute. */
const NAMESPACE_MS = 3_000;

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
  #share: Share = { proxies: 1, place: 0 };
  readonly #abort = new AbortController();
  readonly #signal = this.#abort.signal;
  #cancel = (): void => {};

  constructor(deps: HeaderAskerDeps) {
    this.#deps = deps;
  }

  /** Replaces the questions. */
  setQuestions(all: readonly HeaderQuestion[], share: Share): void {
    if (this.#signal.aborted) return;
    const { clock, random } = this.#deps;
    const now = clock.now();
    this.#share = share;
    const questions = new Map(all.slice(0, MAX_ASKED).map((each) => [keyOf(each), each]));
    for (const key of this.#ports.keys()) if (!questions.has(key)) this.#ports.delete(key);
    for (const [key, question] of questions) {
      const port = this.#ports.get(key);
      if (port === undefined) this.#ports.set(key, new AskedPort(question, share, now, random));
      else port.update(question, share, now);
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
    const now = clock.now();
    const next = this.#next(now);
    if (typeof next === "number") {
      if (Number.isFinite(next)) this.#cancel = clock.after(next - now, () => this.#startDue());
    } else {
      void this.#contact(next, now);
      this.#startDue();
    }
  }

  /**
   * The port to contact now, or the time at which to look again. The namespace that waits longest is first. In it, a
   * port that needs a round is before those that need only a recheck. Infinity: no port is left.
   */
  #next(now: number): AskedPort | number {
    const lastOf = ({ question }: AskedPort) => this.#last.get(question.namespace) ?? Number.NEGATIVE_INFINITY;
    const startOf = (port: AskedPort) =>
      Math.max(port.dueAt, lastOf(port) + NAMESPACE_MS * this.#share.proxies, this.#lastOfAll + OWN_MS);
    const inOrder = (one: AskedPort, other: AskedPort) =>
      lastOf(one) - lastOf(other) || other.kind.localeCompare(one.kind) || one.dueAt - other.dueAt;
    const idle = [...this.#ports.values()].filter(({ isBusy }) => !isBusy);
    const [first] = idle.filter((port) => startOf(port) <= now).sort(inOrder);
    return first ?? Math.min(...idle.map(startOf));
  }

  async #contact(port: AskedPort, now: number): Promise<void> {
    const { clock, ask, dial } = this.#deps;
    this.#last.set(port.question.namespace, now);
    this.#lastOfAll = now;
    port.isBusy = true;
    const limits = { signal: this.#signal };
    const asked = await this.#addressed(port);
    const isRecheck = asked !== undefined && port.kind === "recheck";
    if (isRecheck && (await dial(asked, port.header, limits)).kind === "answered") port.confirm(clock.now());
    else {
      const round = asked && (await ask(asked, limits));
      if (!this.#signal.aborted) this.#conclude(port, round);
    }
    port.isBusy = false;
    this.#startDue();
  }

  /** Without a round, nothing could be reached. */
  #conclude(port: AskedPort, round: Round | undefined): void {
    const { clock, log } = this.#deps;
    if (!port.conclude(round, clock.now())) return;
    const seen = round && HEADERS.map((header) => `${header}: ${round.seen[header].kind}`).join(", ");
    log.info({ ...port.report(), seen: seen ?? "no address" }, "new answer of a port to a PROXY header");
  }

  /** The question, with the address to connect to. Undefined if there is no address. */
  async #addressed(port: AskedPort): Promise<AskedQuestion | undefined> {
    const { question } = port;
    const host = port.choose(await this.#addressesOf(question));
    return host === undefined
      ? undefined
      : { ...question, host, port: question.upstreamPort, agent: "switchback-proxy" };
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
}

/** What was seen at another upstream does not count, so that is another port. */
function keyOf({ target, port, speaks, upstream, upstreamIPs, upstreamPort }: HeaderQuestion): string {
  return JSON.stringify([target, port, speaks, upstreamIPs ?? upstream, upstreamPort]);
}
