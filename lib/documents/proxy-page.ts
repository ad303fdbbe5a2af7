import * as v from "valibot";
import { port } from "#lib/config/values.ts";
import { object } from "#lib/errors/schemas.ts";
import { attempt } from "#lib/errors/validation.ts";
import { askJson } from "#lib/http/ask-json.ts";
import type { Page } from "#lib/http/listen.ts";
import { HEADER_ANSWERS, type HeaderAnswer } from "./header-answers.ts";
import { targetName } from "./targets-format.ts";

/**
 * The page of a proxy's health port that the controller reads: the targets for which the proxy listens, and the answers
 * of the ports that it asks. Every pod can read it, so it shows only a reason code. Otherwise a tenant, who chooses
 * where its Service leads, could scan what the proxies reach.
 */
export const PROXY_PAGE = "/targets";
/** Maximum number of ports that a proxy asks, and of entries of a page that are read. */
export const MAX_ASKED = 2_000;

/** What a proxy saw at one port. */
export interface ReportedAnswer {
  readonly target: string;
  readonly port: number;
  readonly answer: HeaderAnswer;
  /** How often the proxy has asked the port. Another number means that the port has answered again. */
  readonly count: number;
}

export interface ProxyPage {
  /** Targets whose listeners are all bound. */
  readonly listening: readonly string[];
  readonly answers: readonly ReportedAnswer[];
}

const answerSchema = object({
  target: targetName,
  port,
  answer: v.picklist(HEADER_ANSWERS),
  count: v.pipe(v.number(), v.integer()),
});

/** Renders the page as JSON. */
export function renderProxyPage(page: ProxyPage): Page {
  return { contentType: "application/json", body: `${JSON.stringify(page)}\n` };
}

/** Reads the page of one proxy. Leaves out invalid entries. Rejects like `askJson`, and if the targets are missing. */
export async function readProxyPage(address: string, healthPort: number): Promise<ProxyPage> {
  const page = (await askJson(address, healthPort, PROXY_PAGE)) as Partial<ProxyPage> | null;
  if (!Array.isArray(page?.listening)) throw new Error(`${PROXY_PAGE} answered without a list of targets`);
  const answers: readonly unknown[] = Array.isArray(page.answers) ? page.answers.slice(0, MAX_ASKED) : [];
  return {
    listening: page.listening.slice(0, MAX_ASKED).filter((name) => typeof name === "string"),
    answers: answers.flatMap((item) => attempt(answerSchema, item).value ?? []),
  };
}
