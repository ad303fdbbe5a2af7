import {
  ANSWER_HOLDS_MS,
  type HeaderAnswer,
  type HeaderQuestion,
  type ReportedAnswer,
} from "#lib/documents/header-questions.ts";
import { type Backoff, createBackoff } from "#lib/kube/backoff.ts";
import type { Round } from "./ask.ts";
import type { Header } from "./outcome.ts";

/** Age of an answer at which the port is asked again. The jitter spreads the rounds of the proxies. */
const REFRESH_MS = 25 * 60_000;
const REFRESH_JITTER_MS = ANSWER_HOLDS_MS - REFRESH_MS;
/** A known answer changes only after this many equal rounds, over at least CHANGE_MS. */
const CHANGE_ROUNDS = 3;
const CHANGE_MS = 20_000;
/**
 * During a rollout, backends differ and their answers alternate. For MIXED_MS after a round that broke a series, a
 * change needs MIXED_ROUNDS equal rounds.
 */
const MIXED_MS = 300_000;
const MIXED_ROUNDS = 5;
/**
 * Interval between two rounds while a new answer waits for confirmation. If answers keep differing for CONTRADICTIONS
 * rounds, it is CONTRADICTED_MS.
 */
const CONFIRM_MS = 10_000;
const CONTRADICTIONS = 6;
const CONTRADICTED_MS = 60_000;
/** Backoff of rounds without an answer. */
const RETRY_BASE_MS = 1_000;
const RETRY_CAP_MS = 60_000;
/** The interval for a port that is reachable, and still has no clear answer after LATE_FAILURES rounds. */
const LATE_FAILURES = 20;
const LATE_RETRY_MS = 300_000;
/** Minimum interval between two rounds that failing connections cause. */
const ASK_AGAIN_MS = 60_000;

/** A new answer that more rounds must confirm. */
interface Doubt {
  readonly answer: HeaderAnswer;
  readonly rounds: number;
  readonly since: number;
}

/**
 * The known answer of one port, and the time of its next round. Times are milliseconds.
 *
 *     nothing known -- first answer --> known -- another answer, three times over 20 s --> known
 *
 * A round without an answer never removes a known answer.
 */
export class AskedPort {
  /** Time of the next round. */
  dueAt: number;
  /** Whether somebody waits for the next round. It then comes before periodic rounds and retries. */
  isUrgent = false;
  /** Whether a round is running. */
  isBusy = false;
  /** Time of the last round or recheck. */
  contactAt = Number.NEGATIVE_INFINITY;
  #question: HeaderQuestion;
  #answer: HeaderAnswer | undefined;
  #at = 0;
  #seen = "";
  #failures = 0;
  #doubt: Doubt | undefined;
  /** Time of the last round that broke a series of equal new answers, with another answer or without one. */
  #brokenAt = Number.NEGATIVE_INFINITY;
  /** Contradicting rounds since the last round that gave the known answer. */
  #contradictions = 0;
  /** Whether the upstream has changed. Its first answer then counts at once. */
  #isMoved = false;
  #askedAgainAt = Number.NEGATIVE_INFINITY;
  #lastDial: string | undefined = "connected";
  #header: Header = "none";
  readonly #backoff: Backoff;
  readonly #random: () => number;

  constructor(question: HeaderQuestion, now: number, random: () => number) {
    this.#question = question;
    this.#random = random;
    this.#backoff = createBackoff(RETRY_BASE_MS, RETRY_CAP_MS, random);
    this.dueAt = now;
    this.isUrgent = true;
    this.#remember(question, now);
  }

  get question(): HeaderQuestion {
    return this.#question;
  }

  /** Whether a new answer contradicts the known one and waits for more rounds. */
  get isDoubted(): boolean {
    return this.#doubt !== undefined;
  }

  /** Replaces the question. A changed upstream is asked at once. */
  update(question: HeaderQuestion, now: number): void {
    const isMoved = !this.asks(question);
    this.#question = question;
    if (this.#answer === undefined) this.#remember(question, now);
    if (!isMoved) return;
    this.#isMoved = true;
    this.#failures = 0;
    this.#doubt = undefined;
    this.askNow(now);
  }

  /** Whether this question is about the same upstream as the current one. */
  asks(question: HeaderQuestion): boolean {
    return upstreamOf(question) === upstreamOf(this.#question);
  }

  /** The address to connect to. After a failure, the next one. */
  choose(addresses: readonly string[]): string | undefined {
    return addresses[this.#failures % Math.max(1, addresses.length)];
  }

  /** Takes the result of a round. Returns whether the answer has changed. */
  conclude(round: Round, now: number): boolean {
    const before = this.#answer;
    this.contactAt = now;
    this.isUrgent = false;
    this.#seen = (["none", "v1", "v2"] as const).map((header) => `${header}: ${round.seen[header].kind}`).join(", ");
    if (round.answer === "unknown" || !round.reachable) this.#failed(round.reachable, now);
    else this.#answered(round, now);
    return this.#answer !== before;
  }

  /** Asks the port again. Returns false, and does nothing, if it did so less than a minute ago. */
  askAgain(now: number): boolean {
    if (now - this.#askedAgainAt < ASK_AGAIN_MS) return false;
    this.#askedAgainAt = now;
    this.askNow(now);
    return true;
  }

  /** Handles the result of a relayed dial. Returns whether this result causes a round. */
  dialled(result: string | undefined, now: number): boolean {
    if (this.#lastDial === result) return false;
    this.#lastDial = result;
    return this.askAgain(now);
  }

  askNow(now: number): void {
    this.dueAt = now;
    this.isUrgent = true;
    this.#backoff.reset();
  }

  /**
   * The header with which a recheck works as long as the known answer holds. Undefined if no answer is known, or if
   * rounds are running or due anyway.
   */
  get recheckHeader(): Header | undefined {
    const isSettled = this.#isKnown && this.#failures === 0 && this.#doubt === undefined && !this.#isMoved;
    return isSettled && !this.isBusy && !this.isUrgent ? this.#header : undefined;
  }

  /** Undefined before the first answer. */
  report(): ReportedAnswer | undefined {
    if (this.#answer === undefined) return undefined;
    const { target, port } = this.#question;
    const at = new Date(this.#at).toISOString();
    return { target, port, answer: this.#answer, at };
  }

  /** The class of each outcome of the last round, for the log: `none: answered, v1: misread, v2: closed`. */
  get seen(): string {
    return this.#seen;
  }

  get #isKnown(): boolean {
    return this.#answer !== undefined && this.#answer !== "unknown";
  }

  /** Adopts the answer that the question contains. So a new replica asks only what no replica has asked lately. */
  #remember({ known }: HeaderQuestion, now: number): void {
    if (known === undefined) return;
    this.#answer = known.answer;
    this.#at = Math.min(Date.parse(known.at), now);
    this.#header = headerOf(known.answer, undefined);
    this.isUrgent = false;
    this.dueAt = Math.max(now, this.#isKnown ? this.#at + this.#refreshMs() : now + RETRY_CAP_MS * this.#random());
  }

  #answered(round: Round, now: number): void {
    this.#failures = 0;
    this.#backoff.reset();
    if (this.#doubt !== undefined && this.#doubt.answer !== round.answer) this.#brokenAt = now;
    if (round.answer === this.#answer || !this.#isKnown || this.#isMoved) {
      this.#settle(round, now);
      return;
    }
    const { rounds, since } = this.#doubt?.answer === round.answer ? this.#doubt : { rounds: 0, since: now };
    const needed = now - this.#brokenAt < MIXED_MS ? MIXED_ROUNDS : CHANGE_ROUNDS;
    if (rounds + 1 >= needed && now - since >= CHANGE_MS) {
      this.#settle(round, now);
      return;
    }
    this.#doubt = { answer: round.answer, rounds: rounds + 1, since };
    this.#contradictions += 1;
    this.isUrgent = true;
    const isRepeated = rounds > 0;
    this.dueAt = now + (isRepeated || this.#contradictions < CONTRADICTIONS ? CONFIRM_MS : CONTRADICTED_MS);
  }

  #settle(round: Round, now: number): void {
    this.#answer = round.answer;
    this.#at = now;
    this.#header = headerOf(round.answer, round);
    this.#doubt = undefined;
    this.#contradictions = 0;
    this.#isMoved = false;
    this.dueAt = now + this.#refreshMs();
  }

  #failed(isReachable: boolean, now: number): void {
    this.#failures += 1;
    if (isReachable && this.#doubt !== undefined) this.#brokenAt = now;
    if (this.#answer === undefined) {
      this.#answer = "unknown";
      this.#at = now;
    }
    const isLate = isReachable && this.#failures > LATE_FAILURES;
    this.dueAt = now + (isLate ? LATE_RETRY_MS * (0.5 + this.#random() / 2) : this.#backoff.next());
  }

  #refreshMs(): number {
    return REFRESH_MS + REFRESH_JITTER_MS * this.#random();
  }
}

/** The cheapest header with which the port answered. */
function headerOf(answer: HeaderAnswer, round: Round | undefined): Header {
  if (answer === "refuses-header") return "none";
  return answer === "demands-v2" || (round !== undefined && round.seen.v1.kind !== "answered") ? "v2" : "v1";
}

function upstreamOf({ speaks, upstream, upstreamIPs, upstreamPort }: HeaderQuestion): string {
  return JSON.stringify([speaks, upstreamIPs ?? upstream, upstreamPort]);
}
