import { lookup } from "node:dns/promises";
import { pause } from "#lib/kube/time.ts";
import { DNS_HEALTH_NAME, revisionHealthName } from "./health-name.ts";
import { answersHealth } from "./health-question.ts";

/** How a pod of the second resolver asks the first one. */
interface PeerDeps {
  /** The first resolver's Service, in the same namespace. */
  readonly service: string;
  /** Of this rollout. */
  readonly revision: string;
  /** Whether the Service answers this name as healthy. */
  readonly answers: (service: string, name: string) => Promise<boolean>;
  /** Resolves when it is time for the next question. */
  readonly nextQuestion: () => Promise<void>;
  readonly signal: AbortSignal;
}

/** The Service leads to any of its pods, of this rollout or the one before, so that one answer says little. */
const ANSWERS_OF_THIS_ROLLOUT = 5;
/** Without an answer there is nothing to wait for: this resolver must be there all the sooner. */
const SILENCE = 3;

const PERIOD_MS = 1_000;

/**
 * Waits until the other resolver has been rolled to this revision and answers, so that a rollout that breaks one
 * resolver never reaches the other. Ends at once if `signal` fires, and after some questions if the other one
 * answers nothing at all.
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

/** Asks once a second, and the DNS of the cluster for the Service's address. */
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
