import { once } from "node:events";
import { createInterface } from "node:readline/promises";
import { SwitchbackError } from "#lib/errors/errors.ts";

/**
 * Asks a yes/no question if there is a terminal; undefined without one. Only `y` or `yes` is a yes; the end of standard
 * input is a no. Piped input does not count: nobody meant it as an answer to this question.
 */
export async function ask(question: string): Promise<boolean | undefined> {
  if (process.stdin.isTTY !== true || process.stderr.isTTY !== true) return undefined;
  // The terminal edits the line itself, and Ctrl-C ends the process.
  const prompt = createInterface({ input: process.stdin, output: process.stderr, terminal: false });
  const ended = once(prompt, "close").then(() => "");
  try {
    return /^y(es)?$/i.test((await Promise.race([prompt.question(question), ended])).trim());
  } finally {
    prompt.close();
  }
}

/** Returns once a person at a terminal has agreed, else throws `declined`. */
export async function agree(question: string): Promise<void> {
  const answer = await ask(question);
  if (answer === true) return;
  const why = answer === false ? "declined" : "there is no terminal to ask on";
  throw new SwitchbackError("declined", `${why}: nothing was changed. --yes answers the question in advance`);
}
