import { askJson } from "#lib/http/ask-json.ts";
import type { Page } from "#lib/http/listen.ts";

/**
 * The page of a proxy's health port that lists the targets for which it listens. The controller reads it before it
 * publishes their names.
 */
export const LISTENING_PATH = "/targets";

/** The targets for which one proxy listens. */
export interface ListeningPage {
  /** Targets whose listeners are all bound. */
  readonly listening: readonly string[];
}

/** Renders the page as JSON. */
export function renderListening({ listening }: ListeningPage): Page {
  return { contentType: "application/json", body: `${JSON.stringify({ listening })}\n` };
}

/** Reads the page of one proxy. Rejects like `askJson`, and if the list is missing. */
export async function readListening(address: string, port: number): Promise<ListeningPage> {
  const page = (await askJson(address, port, LISTENING_PATH)) as Partial<ListeningPage> | null;
  if (!Array.isArray(page?.listening)) throw new Error(`${LISTENING_PATH} answered without a list of targets`);
  return { listening: page.listening.filter((name) => typeof name === "string") };
}
