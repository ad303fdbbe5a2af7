import { once } from "node:events";
import { createInterface } from "node:readline/promises";

/** Asks at the terminal for a yes or no. Standard input that ends without an answer is a no. */
export async function ask(question: string): Promise<boolean> {
  const prompt = createInterface({ input: process.stdin, output: process.stdout });
  const ended = once(prompt, "close").then(() => "");
  try {
    return /^y(es)?$/i.test((await Promise.race([prompt.question(question), ended])).trim());
  } finally {
    prompt.close();
  }
}
