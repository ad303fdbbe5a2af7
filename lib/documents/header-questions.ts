import * as v from "valibot";
import type { Reason } from "#hostmap/types.ts";
import { object } from "#lib/errors/schemas.ts";
import { attempt } from "#lib/errors/validation.ts";
import type { Page } from "#lib/http/listen.ts";
import { address, addresses, isTime, parseDocument, port, targetName, upstreamName } from "./targets-fields.ts";
import { QUESTIONS_KEY } from "./targets-name.ts";

/**
 * Raised for the same reasons as the version of the targets. A proxy asks nothing new when it reads another version.
 */
const VERSION = 1;
/** Longer text is not from Switchback and is not parsed. */
const MAX_BYTES = 900_000;
/** Maximum number of questions that are read. */
export const MAX_QUESTIONS = 2_000;
/** Maximum time until a proxy asks again, in milliseconds. Until then an answer is valid. */
export const ANSWER_HOLDS_MS = 35 * 60_000;

/**
 * Whether a port of an ingress controller expects a PROXY header. `demands-*`: it answers only with a header, of this
 * version or of either. `optional`: it answers with and without one. `refuses-header`: it answers without a header,
 * and a header makes it close the connection or misread the request. `unknown`: anything else.
 *
 * A port that accepts headers only from listed addresses may refuse headers from other addresses.
 */
const HEADER_ANSWERS = ["demands-v1", "demands-v2", "demands-either", "optional", "refuses-header", "unknown"] as const;
export type HeaderAnswer = (typeof HEADER_ANSWERS)[number];

/** The last answer to a question, and its time. */
interface KnownAnswer {
  readonly answer: HeaderAnswer;
  /** RFC 3339, UTC. */
  readonly at: string;
}

/** An answer with the address of the proxy that gave it. After a rollout, this may not be the current asker. */
export interface AttributedAnswer extends KnownAnswer {
  readonly by: string;
}

/** The published answer of a port. */
export interface PublishedAnswer extends AttributedAnswer {
  /** A different answer that another proxy gave shortly before. It is removed when the port is asked again. */
  readonly other?: AttributedAnswer | undefined;
}

/** A port of a target. One proxy asks the port whether it expects a PROXY header. */
export interface HeaderQuestion {
  readonly target: string;
  /** The port that pods call. */
  readonly port: number;
  readonly speaks: "http" | "tls";
  /** The address to ask, as in `Listener`. */
  readonly upstream: string;
  readonly upstreamIPs?: readonly string[] | undefined;
  readonly upstreamPort: number;
  /** A host that claims the target. It is the server name in the ClientHello. */
  readonly name: string;
  /**
   * The namespace of the target's Service, or empty for a configured host. Questions of one namespace share a budget.
   */
  readonly namespace: string;
  /** The address of the proxy that asks. */
  readonly asker: string;
  /** The last published answer, if any. */
  readonly known?: PublishedAnswer | undefined;
}

const answerSchema = object({
  answer: v.picklist(HEADER_ANSWERS),
  at: v.pipe(v.string(), v.check(isTime)),
  by: address,
});
const knownSchema = object({ ...answerSchema.entries, other: v.optional(answerSchema) });
export const questionSchema = object({
  target: targetName,
  port,
  speaks: v.picklist(["http", "tls"]),
  upstream: upstreamName,
  upstreamIPs: v.optional(addresses),
  upstreamPort: port,
  name: v.pipe(v.string(), v.maxLength(253), v.regex(/^[a-z0-9.-]+$/)),
  namespace: v.pipe(v.string(), v.maxLength(63)),
  asker: address,
  known: v.optional(knownSchema),
});
export const documentSchema = object({ version: v.literal(VERSION), questions: v.array(v.unknown()) });

/** Returns the text of `questions.json`. */
export function renderQuestions(questions: readonly HeaderQuestion[]): string {
  return `${JSON.stringify({ version: VERSION, questions })}\n`;
}

/**
 * Parses the questions. Invalid questions, and a second question of the same port, are left out. Returns a Reason if
 * the document as a whole cannot be parsed.
 */
export function parseQuestions(text: string): readonly HeaderQuestion[] | Reason {
  const { value, problem } = parseDocument(text, MAX_BYTES, documentSchema);
  if (problem !== undefined) return { code: "questions-malformed", text: `${QUESTIONS_KEY} ${problem}` };
  const questions = new Map<string, HeaderQuestion>();
  for (const item of value.questions) {
    if (questions.size >= MAX_QUESTIONS) break;
    const question = attempt(questionSchema, item).value;
    if (question === undefined) continue;
    const key = questionKey(question);
    if (!questions.has(key)) questions.set(key, question);
  }
  return [...questions.values()];
}

/** Returns the key of a target's port. */
export function questionKey({ target, port: number }: Pick<HeaderQuestion, "target" | "port">): string {
  return `${target}:${number}`;
}

const reportedSchema = object({
  target: targetName,
  port,
  answer: v.picklist(HEADER_ANSWERS),
  at: v.pipe(v.string(), v.check(isTime)),
});

/**
 * The page of a proxy's health port with its answers. The controller reads it. Every pod can read it, so it shows
 * only a reason code. Otherwise a tenant, who chooses where its Service leads, could scan what the proxies reach.
 */
export const ANSWERS_PATH = "/answers";

/** A proxy's report on one question. */
export interface ReportedAnswer extends KnownAnswer {
  readonly target: string;
  readonly port: number;
}

/** Renders the page as JSON. */
export function renderAnswers(answers: readonly ReportedAnswer[]): Page {
  return { contentType: "application/json", body: `${JSON.stringify({ answers })}\n` };
}

/** Parses the page. Invalid answers are left out. */
export function parseAnswers(page: unknown): readonly ReportedAnswer[] {
  const list = attempt(object({ answers: v.array(v.unknown()) }), page).value?.answers ?? [];
  return list.slice(0, MAX_QUESTIONS).flatMap((item) => attempt(reportedSchema, item).value ?? []);
}
