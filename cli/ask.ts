import { once } from "node:events";
import { createInterface } from "node:readline/promises";

/** Asks a yes/no question at the terminal. Anything but `y` or `yes` is a no, and so is the end of standard input. */
export async function ask(question: string): Promise<boolean> {
  const prompt = createInterface({ input: process.stdin, output: process.stdout });
  const ended = once(prompt, "close").then(() => "");
  try {
    return /^y(es)?$/i.test((await Promise.race([prompt.question(question), ended])).trim());
  } finally {
    prompt.close();
  }
}
