import { lookup } from "node:dns/promises";
import { pause } from "#lib/kube/time.ts";
import { DNS_HEALTH_NAME, revisionHealthName } from "./health-name.ts";
import { answersHealth } from "./health-question.ts";

/** How a pod of the second resolver asks the first one. */
interface PeerDeps {
  /** The first resolver's Service, in the same namespace. */
  readonly service: string;
  /** Revision of this rollout. */
  readonly revision: string;
  /** Whether the Service answers this name as healthy. */
  readonly answers: (service: string, name: string) => Promise<boolean>;
  /** Resolves when it is time for the next question. */
  readonly nextQuestion: () => Promise<void>;
  readonly signal: AbortSignal;
}

/**
 * Number of answers of this rollout in a row. The Service leads to any of its pods, of this rollout or the one
 * before, so one answer says little.
 */
const ANSWERS_OF_THIS_ROLLOUT = 5;
/**
 * Number of missing answers in a row that end the wait. If the other resolver does not answer, this one is needed
 * even more.
 */
const SILENCE = 3;

const PERIOD_MS = 1_000;

/**
 * Waits until the other resolver has been rolled to this revision and answers. So a rollout that breaks one resolver
 * never reaches the other. Ends at once if `signal` fires. Ends after a few questions if the other resolver does not
 * answer at all.
 */
export async function waitForPeerResolver({
  service,
  revision,
  answers,
  nextQuestion,
  signal,
}: PeerDeps): Promise<void> {
  let current = 0;
  let silent = 0;
  while (!signal.aborted) {
    if (await answers(service, revisionHealthName(revision))) {
      current += 1;
      silent = 0;
    } else {
      current = 0;
      silent = (await answers(service, DNS_HEALTH_NAME)) ? 0 : silent + 1;
    }
    if (current === ANSWERS_OF_THIS_ROLLOUT || silent === SILENCE) return;
    await nextQuestion();
  }
}

/** Asks once a second. Looks up the Service's address in the DNS of the cluster each time. */
export function peerQuestions(signal: AbortSignal): Pick<PeerDeps, "answers" | "nextQuestion" | "signal"> {
  return {
    async answers(service, name) {
      const address = await lookup(service).then(
        (found) => found.address,
        () => undefined,
      );
      return address !== undefined && (await answersHealth(address, name));
    },
    nextQuestion: () => pause(PERIOD_MS, signal),
    signal,
  };
}
