import type { HeaderQuestion } from "#lib/documents/header-questions.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { ObjectEventsDeps } from "../claim-events/object-events.ts";
import { AnswerPoll, type AskAnswers } from "./answer-poll.ts";
import { ContradictionEvents } from "./contradiction-events.ts";
import type { HeaderDecisions } from "./header-decisions.ts";
import { type ExampleOf, questionsOf } from "./questions.ts";

interface AskedDeps {
  readonly headers: HeaderDecisions;
  readonly clusterDomain: string | undefined;
  readonly ask: AskAnswers;
  readonly log: Logger;
  /** Called when a proxy has reported a new answer. */
  readonly onChange: () => void;
  /** See `PollDeps` in answer-poll.ts. */
  readonly calmMs?: number | undefined;
  /** Undefined: no Event is written. */
  readonly events?: ObjectEventsDeps | undefined;
}

/** The leader's questions to the proxies, and their answers. */
export class AskedTargets {
  readonly #deps: AskedDeps;
  readonly #poll: AnswerPoll;
  #contradictions: ContradictionEvents | undefined;

  constructor(deps: AskedDeps) {
    this.#deps = deps;
    this.#poll = new AnswerPoll(deps);
  }

  /** Begins a term, which `signal` ends. */
  lead(signal: AbortSignal): void {
    const { events } = this.#deps;
    this.#contradictions = events && new ContradictionEvents(events, signal);
  }

  /** Returns the questions to publish. `inUse` are the targets with accepted claims, `proxies` those that are ready. */
  questions(
    inUse: ReadonlySet<string>,
    exampleOf: ExampleOf,
    proxies: readonly string[],
    published: readonly HeaderQuestion[],
  ): HeaderQuestion[] {
    const { headers, clusterDomain } = this.#deps;
    return questionsOf({
      targets: [...inUse].flatMap((name) => headers.defined(name) ?? []),
      wantedOf: (name) => headers.wantedOf(name),
      exampleOf,
      proxies,
      clusterDomain,
      published,
      reported: this.#poll.reported,
    });
  }

  /** Sets the published questions. From now on their answers are read. */
  expect(questions: readonly HeaderQuestion[]): void {
    this.#poll.expect(questions);
    this.#contradictions?.check(this.#deps.headers.contradictions());
  }

  async stop(): Promise<void> {
    await this.#poll.stop();
  }
}
