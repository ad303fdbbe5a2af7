import {
  ANSWERS_PATH,
  type AttributedAnswer,
  type HeaderQuestion,
  parseAnswers,
  questionKey,
  type ReportedAnswer,
} from "#lib/documents/header-questions.ts";
import { describeError } from "#lib/errors/errors.ts";
import { askJson } from "#lib/http/ask-json.ts";
import { type ReconcileResult, Reconciler } from "#lib/kube/reconciler.ts";
import type { Logger } from "#lib/telemetry/log.ts";

/** Asks one proxy for its answers. Rejects if the proxy does not reply. */
export type AskAnswers = (address: string) => Promise<readonly ReportedAnswer[]>;

interface PollDeps {
  readonly ask: AskAnswers;
  readonly log: Logger;
  /** Called when a proxy has reported a new answer. */
  readonly onChange: () => void;
  /** Replaces CALM_MS. Only tests set it. */
  readonly calmMs?: number | undefined;
}

/** Poll intervals: while a question has no answer, and otherwise. */
const EAGER_MS = 500;
const CALM_MS = 5_000;

/** Reads the answers of the proxies. Accepts an answer only from the asker of its question. */
export class AnswerPoll {
  readonly #deps: PollDeps;
  readonly #poller: Reconciler;
  #questions: readonly HeaderQuestion[] = [];
  readonly #reported = new Map<string, AttributedAnswer>();
  #stopped = false;

  constructor(deps: PollDeps) {
    this.#deps = deps;
    this.#poller = new Reconciler({ reconcile: () => this.#poll() });
  }

  /** Sets the published questions. Without questions, no proxy is asked. */
  expect(questions: readonly HeaderQuestion[]): void {
    const isNew = questions.some((question) => !this.#isAnswered(question) && !this.#questions.includes(question));
    this.#questions = questions;
    const keys = new Set(questions.map(questionKey));
    for (const key of this.#reported.keys()) if (!keys.has(key)) this.#reported.delete(key);
    if (questions.length > 0) this.#poller.enqueue(isNew ? EAGER_MS : this.#calmMs);
  }

  /** By `questionKey`. */
  get reported(): ReadonlyMap<string, AttributedAnswer> {
    return this.#reported;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#poller.stop();
  }

  async #poll(): Promise<ReconcileResult | undefined> {
    if (this.#questions.length === 0 || this.#stopped) return undefined;
    const askers = [...new Set(this.#questions.map(({ asker }) => asker))];
    const pages = new Map(await Promise.all(askers.map(async (asker) => [asker, await this.#ask(asker)] as const)));
    if (this.#stopped) return undefined;
    let changed = false;
    for (const question of this.#questions) {
      const key = questionKey(question);
      const answer = pages.get(question.asker)?.get(key);
      const before = this.#reported.get(key);
      if (answer === undefined || (answer.at === before?.at && answer.answer === before.answer)) continue;
      // A new asker first reports the published answer. The check above skips it, so `by` still names the proxy that
      // saw it.
      this.#reported.set(key, { answer: answer.answer, at: answer.at, by: question.asker });
      changed = true;
    }
    if (changed) this.#deps.onChange();
    const isEager = this.#questions.some((question) => !this.#isAnswered(question));
    return { requeueAfter: isEager ? EAGER_MS : this.#calmMs };
  }

  get #calmMs(): number {
    return this.#deps.calmMs ?? CALM_MS;
  }

  #isAnswered(question: HeaderQuestion): boolean {
    return question.known !== undefined || this.#reported.has(questionKey(question));
  }

  async #ask(address: string): Promise<ReadonlyMap<string, ReportedAnswer>> {
    try {
      return new Map((await this.#deps.ask(address)).map((answer) => [questionKey(answer), answer]));
    } catch (error) {
      this.#deps.log.debug({ proxy: address }, `a proxy does not report its answers: ${describeError(error)}`);
      return new Map();
    }
  }
}

/** Asks over HTTP, on the proxies' health port. */
export function askAnswersByHttp(port: number): AskAnswers {
  return async (address) => parseAnswers(await askJson(address, port, ANSWERS_PATH));
}
