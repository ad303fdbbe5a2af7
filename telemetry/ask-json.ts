import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { http } from "./http.ts";

/** Longest wait for an answer, and the most of it that is read. */
const ASK_MS = 2_000;
const MAX_BYTES = 1_000_000;

/**
 * Asks another component's health port, by plain HTTP. (`fetch` would cost the process 20 MB for this alone.) Rejects for anything but
 * JSON under 200, for more than 1,000,000 bytes of it, and after 2 s. What it holds is for the caller to look at.
 */
export async function askJson(address: string, port: number, path: string): Promise<unknown> {
  const signal = AbortSignal.timeout(ASK_MS);
  // By the process's own agent, the one that NODE_USE_ENV_PROXY speaks to; no connection is kept until the next question.
  const sent = http.request({ host: address, port, path, headers: { connection: "close" }, signal }).end();
  const [response] = (await once(sent, "response", { signal })) as [IncomingMessage];
  let text = "";
  for await (const chunk of response.setEncoding("utf8")) {
    text += chunk;
    if (text.length > MAX_BYTES) throw new Error(`${path} answered more than ${MAX_BYTES} bytes`);
  }
  if (response.statusCode !== 200) throw new Error(`${path} answered ${response.statusCode}`);
  return JSON.parse(text);
}
