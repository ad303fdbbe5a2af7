import { createHash } from "node:crypto";
import type { HeaderAnswer } from "#lib/documents/header-answers.ts";
import { portKey } from "#lib/documents/listeners.ts";
import type { ReportedAnswer } from "#lib/documents/proxy-page.ts";
import type { HeaderQuestion } from "#lib/documents/targets-format.ts";
import { type Backoff, createBackoff } from "#lib/kube/backoff.ts";
import type { Round } from "./ask.ts";
import type { Header } from "./dial.ts";

/** Interval between two contacts of one port by all proxies together. They take turns. */
const CONTACT_MS = 25_000;
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

/** The share of one proxy in the limits of all. */
export interface Share {
  /** The number of proxies. */
  readonly proxies: number;
  /** The place of this proxy among them, from 0. */
  readonly place: number;
}

/** Returns the share of the proxy with one of these addresses. One that is not ready has its turns between others. */
export function shareOf(proxies: readonly string[] | undefined, own: readonly string[]): Share {
  if (proxies === undefined || proxies.length === 0) return { proxies: 1, place: 0 };
  const place = proxies.findIndex((address) => own.includes(address));
  return { proxies: proxies.length, place: place < 0 ? 0.5 : place };
}

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
  question: HeaderQuestion;
  #share: Share;
  /** When the first proxy has its turn, milliseconds. It differs from port to port. */
  readonly #turnsFrom: number;
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

  constructor(question: HeaderQuestion, share: Share, now: number, random: () => number) {
    const { proxies } = share;
    this.question = question;
    this.#share = share;
    this.#random = random;
    this.#turnsFrom = CONTACT_MS * fractionOf(portKey(question.target, question.port));
    this.#backoff = createBackoff(RETRY_BASE_MS, RETRY_CAP_MS * proxies, random);
    this.#needsRound = question.answer === undefined;
    this.#roundAt = now - REFRESH_MS * proxies * random();
    this.dueAt = this.#needsRound ? now + SPREAD_MS * (1 - 1 / proxies) * random() : this.#turnAfter(now);
  }

  /** Replaces the question by one about the same upstream. */
  update(question: HeaderQuestion, share: Share, now: number): void {
    const isCalm = !this.#needsRound;
    const isNews = question.answer !== this.question.answer || (isCalm && !isSame(share, this.#share));
    this.question = question;
    this.#share = share;
    if (isNews) this.#compare(now);
  }

  /** The address to connect to. After a failure, the next one. */
  choose(addresses: readonly string[]): string | undefined {
    return addresses[this.#failures % Math.max(1, addresses.length)];
  }

  /** The kind of the next contact. */
  get kind(): "round" | "recheck" {
    return this.#needsRound || this.dueAt - this.#roundAt >= REFRESH_MS * this.#share.proxies ? "round" : "recheck";
  }

  /** The header with which a recheck works as long as the known answer holds. */
  get header(): Header {
    return this.#header ?? headerOf(this.#known ?? "unknown", undefined);
  }

  /** Takes the result of a round. Undefined: there was no address. Returns whether the answer has changed. */
  conclude(round: Round | undefined, now: number): boolean {
    const before = this.#answer;
    if (round === undefined || round.answer === "unknown") {
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
    const { target, port } = this.question;
    return { target, port, answer: this.#answer, count: this.#count };
  }

  /** The published answer, or what this proxy saw before the first publication. */
  get #known(): HeaderAnswer | undefined {
    return this.question.answer ?? (this.#answer === "unknown" ? undefined : this.#answer);
  }

  #saw(answer: HeaderAnswer, now: number): void {
    this.#failures = 0;
    this.#backoff.reset();
    this.#count += 1;
    if (answer !== this.#answer) this.#contradictsSince = undefined;
    this.#answer = answer;
    this.#compare(now);
  }

  /** Compares what the proxy saw with the published answer, and plans the next contact: at its turn if equal. */
  #compare(now: number): void {
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
    if (!this.#needsRound) this.dueAt = this.#turnAfter(now);
  }

  #turnAfter(now: number): number {
    const { proxies, place } = this.#share;
    const first = this.#turnsFrom + place * CONTACT_MS;
    const cycleMs = proxies * CONTACT_MS;
    return first + (Math.floor((now - first) / cycleMs) + 1) * cycleMs;
  }
}

function isSame(one: Share, other: Share): boolean {
  return one.proxies === other.proxies && one.place === other.place;
}

/** The same number from 0 to 1 in every proxy. */
function fractionOf(text: string): number {
  return createHash("sha256").update(text).digest().readUInt32BE() / 2 ** 32;
}

/** The cheapest header with which the port answered. */
function headerOf(answer: HeaderAnswer, round: Round | undefined): Header {
  if (answer === "refuses-header" || answer === "unknown") return "none";
  return answer === "demands-v2" || (round !== undefined && round.seen.v1.kind !== "answered") ? "v2" : "v1";
}
