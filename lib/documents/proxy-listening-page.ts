import { askJson } from "#lib/http/ask-json.ts";
import type { Page } from "#lib/http/listen.ts";

/**
 * The page of a proxy's health port that says which targets it listens for. The controller reads it before it
 * publishes their names.
 */
export const LISTENING_PATH = "/targets";

/** What one proxy listens for. */
export interface ListeningPage {
  /** Targets all of whose listeners are bound. */
  readonly listening: readonly string[];
}

/** The page as JSON. */
export function renderListening({ listening }: ListeningPage): Page {
  return { contentType: "application/json", body: `${JSON.stringify({ listening })}\n` };
}

/** Reads the page of one proxy. Rejects as `askJson` does, and when the list is missing. */
export async function readListening(address: string, port: number): Promise<ListeningPage> {
  const page = (await askJson(address, port, LISTENING_PATH)) as Partial<ListeningPage> | null;
  if (!Array.isArray(page?.listening)) throw new Error(`${LISTENING_PATH} answered without what it listens on`);
  return { listening: page.listening.filter((name) => typeof name === "string") };
}
