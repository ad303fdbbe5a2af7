import type { HeaderAnswer } from "./header-questions.ts";

/** The answer of a target's port, as the status contains it. It may be from another version. */
interface AskedPort {
  readonly port: number;
  readonly asked?: { readonly answer: string; readonly at: string; readonly asker: string };
}

const WORDS = {
  "demands-v1": "demands v1",
  "demands-v2": "demands v2",
  "demands-either": "demands v1 or v2",
  optional: "takes a header or none",
  "refuses-header": "refuses a header",
  unknown: "gives no clear answer",
} as const satisfies Readonly<Record<HeaderAnswer, string>>;

/** Returns an answer as text. It is the predicate of a sentence about the port. */
export function answerText(answer: string): string {
  return Object.entries(WORDS).find(([known]) => known === answer)?.[1] ?? answer;
}

/**
 * Describes the answer of each port that was asked, when, and by which proxy: `443 demands v1, 3 min ago, from
 * 10.0.0.7`. Without `now` (milliseconds since 1970) the text has the time instead of the age, so that it changes
 * only with the answer.
 */
export function askedTexts(ports: readonly AskedPort[], now: number | undefined): string[] {
  return ports.flatMap(({ port, asked }) => {
    if (asked === undefined) return [];
    return [`${port} ${answerText(asked.answer)}, ${timeText(asked.at, now)}, from ${asked.asker}`];
  });
}

/** `at` is an RFC 3339 time. */
function timeText(at: string, now: number | undefined): string {
  const minutes = now === undefined ? Number.NaN : Math.floor((now - Date.parse(at)) / 60_000);
  if (Number.isNaN(minutes)) return `at ${at}`;
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  return minutes < 48 * 60 ? `${Math.floor(minutes / 60)} h ago` : `${Math.floor(minutes / 1_440)} days ago`;
}
