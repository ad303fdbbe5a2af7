import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { http } from "./http.ts";

/** Timeout for the response, and its maximum size. */
const TIMEOUT_MS = 2_000;
const MAX_BYTES = 1_000_000;

/**
 * Gets JSON from another component's health port over plain HTTP. (`fetch` alone would take 20 MB of memory.) Rejects
 * if the response is not 200 with valid JSON, has more than 1,000,000 bytes, or takes more than 2 s. The caller
 * validates the content.
 */
export async function askJson(address: string, port: number, path: string): Promise<unknown> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  // Uses the global agent, which NODE_USE_ENV_PROXY configures. The connection is not kept alive.
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
