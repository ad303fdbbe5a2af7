import type { HeaderAnswer } from "#lib/documents/header-answers.ts";
import type { ReportedAnswer } from "#lib/documents/proxy-page.ts";
import type { HeaderQuestion } from "#lib/documents/targets-format.ts";
import { type Backoff, createBackoff } from "#lib/kube/backoff.ts";
import type { Round } from "./ask.ts";
import type { Header } from "./outcome.ts";

/** Interval between two contacts of one port by all proxies together, and how much longer it may be. */
const CONTACT_MS = 25_000;
const CONTACT_JITTER = 0.1;
/**
 * A recheck cannot see every change: a port that is asked without a header may have begun to accept one. So all proxies
 * together make a round at least this often.
 */
const REFRESH_MS = 30 * 60_000;
/**
 * Interval between two rounds while the port contradicts the published answer. The controller believes four equal
 * answers over 30 s. It reads the page every 5 s, so the first answer may be that much younger there.
 */
const CONFIRM_MS = 12_000;
const CONFIRM_JITTER_MS = 2_000;
/** If the contradiction lasts, the interval grows with its age, up to this. Proxies may have different answers. */
const CONTRADICTED_MS = 300_000;
/** The backoff of rounds without an answer. */
const RETRY_BASE_MS = 1_000;
const RETRY_CAP_MS = 60_000;
/** All proxies see a new port at once. This spreads their first rounds, so that the first answer saves the others. */
const SPREAD_MS = 1_000;

/**
 * One port that this proxy asks: what the proxy saw there last, and the time of the next contact. A contact is a round,
 * or a recheck: a single connection that shows whether the known answer holds. If it does not, a round follows at once.
 * Times are milliseconds.
 */
export class AskedPort {
  /** Time of the next contact. */
  dueAt: number;
  /** Whether a contact is in progress. */
  isBusy = false;
  #question: HeaderQuestion;
  /** The number of proxies that share the limits. */
  #proxies: number;
  /** What this proxy saw last. `unknown` only if it never got a clear answer: silence keeps the last one. */
  #answer: HeaderAnswer | undefined;
  #count = 0;
  /** The header with which the port answered last. */
  #header: Header | undefined;
  /** Whether a recheck is not enough. */
  #needsRound: boolean;
  #roundAt: number;
  /** Since when the port contradicts the published answer. */
  #contradictsSince: number | undefined;
  #failures = 0;
  readonly #backoff: Backoff;
  readonly #random: () => number;

  constructor(question: HeaderQuestion, proxies: number, now: number, random: () => number) {
    this.#question = question;
    this.#proxies = proxies;
    this.#random = random;
    this.#backoff = createBackoff(RETRY_BASE_MS, RETRY_CAP_MS * proxies, random);
    this.#needsRound = question.answer === undefined;
    this.#roundAt = now - REFRESH_MS * proxies * random();
    const waitMs = this.#needsRound ? SPREAD_MS * (1 - 1 / proxies) : CONTACT_MS * proxies;
    this.dueAt = now + waitMs * random();
  }

  get question(): HeaderQuestion {
    return this.#question;
  }

  /** Replaces the question by one about the same upstream. */
  update(question: HeaderQuestion, proxies: number, now: number): void {
    const isAnswered = question.answer !== this.#question.answer;
    this.#question = question;
    this.#proxies = proxies;
    // Every proxy reads the answer at the same moment. Their next contacts must not be at the same moment.
    if (isAnswered) this.#compare(now, CONTACT_MS * proxies * this.#random());
  }

  /** Whether this question is about the same upstream. */
  asks(question: HeaderQuestion): boolean {
    return upstreamOf(question) === upstreamOf(this.#question);
  }

  /** The address to connect to. After a failure, the next one. */
  choose(addresses: readonly string[]): string | undefined {
    return addresses[this.#failures % Math.max(1, addresses.length)];
  }

  /** The kind of the next contact. */
  get kind(): "round" | "recheck" {
    return this.#needsRound || this.dueAt - this.#roundAt >= REFRESH_MS * this.#proxies ? "round" : "recheck";
  }

  /** The header with which a recheck works as long as the known answer holds. */
  get header(): Header {
    return this.#header ?? headerOf(this.#known ?? "unknown", undefined);
  }

  /** Takes the result of a round. Undefined: there was no address. Returns whether the answer has changed. */
  conclude(round: Round | undefined, now: number): boolean {
    const before = this.#answer;
    if (round === undefined || round.answer === "unknown" || !round.reachable) {
      this.#failures += 1;
      this.#answer ??= "unknown";
      this.#needsRound = true;
      this.dueAt = now + this.#backoff.next();
    } else {
      this.#roundAt = now;
      this.#header = headerOf(round.answer, round);
      this.#saw(round.answer, now);
    }
    return this.#answer !== before;
  }

  /** Call this if a recheck was answered: the known answer holds. */
  confirm(now: number): void {
    if (this.#known !== undefined) this.#saw(this.#known, now);
  }

  /** Undefined before the first contact. */
  report(): ReportedAnswer | undefined {
    if (this.#answer === undefined) return undefined;
    const { target, port } = this.#question;
    return { target, port, answer: this.#answer, count: this.#count };
  }

  /** The published answer, or what this proxy saw before the first publication. */
  get #known(): HeaderAnswer | undefined {
    return this.#question.answer ?? (this.#answer === "unknown" ? undefined : this.#answer);
  }

  #saw(answer: HeaderAnswer, now: number): void {
    this.#failures = 0;
    this.#backoff.reset();
    this.#count += 1;
    if (answer !== this.#answer) this.#contradictsSince = undefined;
    this.#answer = answer;
    this.#compare(now, CONTACT_MS * this.#proxies * (1 + CONTACT_JITTER * this.#random()));
  }

  /** Compares what the proxy saw with the published answer, and plans the next contact: after `calmMs` if equal. */
  #compare(now: number, calmMs: number): void {
    const isClear = this.#answer !== undefined && this.#answer !== "unknown";
    if (isClear && this.#answer !== this.#known) {
      this.#contradictsSince ??= now;
      this.#needsRound = true;
      const confirmMs = CONFIRM_MS + CONFIRM_JITTER_MS * this.#random();
      const age = now - this.#contradictsSince;
      this.dueAt = now + Math.min(CONTRADICTED_MS, Math.max(confirmMs, age / 3));
      return;
    }
    this.#contradictsSince = undefined;
    this.#needsRound = this.#known === undefined;
    if (!this.#needsRound) this.dueAt = now + calmMs;
  }
}

/** The cheapest header with which the port answered. */
function headerOf(answer: HeaderAnswer, round: Round | undefined): Header {
  if (answer === "refuses-header" || answer === "unknown") return "none";
  return answer === "demands-v2" || (round !== undefined && round.seen.v1.kind !== "answered") ? "v2" : "v1";
}

function upstreamOf({ speaks, upstream, upstreamIPs, upstreamPort }: HeaderQuestion): string {
  return JSON.stringify([speaks, upstreamIPs ?? upstream, upstreamPort]);
}
