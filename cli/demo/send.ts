import { type ClientRequest, type IncomingMessage, request } from "node:http";
import type { HostAlias } from "#hostmap/types.ts";

const TIMEOUT_MS = 3_000;

/** Sends a request with a body. `open` opens it. Returns the status and the text of the response. */
export function send(
  open: (onResponse: (response: IncomingMessage) => void) => ClientRequest,
  body = "",
): Promise<{ readonly status: number; readonly text: string }> {
  return new Promise((resolve, reject) => {
    const outgoing = open((response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        text += chunk;
      });
      response.on("end", () => resolve({ status: response.statusCode ?? 0, text: text.trim() }));
    });
    outgoing.setTimeout(TIMEOUT_MS, () => outgoing.destroy(new Error(`no response within ${TIMEOUT_MS} ms`)));
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}

/** The result of a pod's HTTP request. */
interface CallResult {
  readonly ok: boolean;
  readonly text: string;
}

/**
 * Sends a pod's request for a public name. `at` replaces the pod's resolver, and has a local port (a real pod would
 * use port 80 of a real ClusterIP).
 */
export async function call(name: string, at: { readonly address: string; readonly port: number }): Promise<CallResult> {
  const options = { host: at.address, port: at.port, path: "/", headers: { host: name }, agent: false };
  try {
    const { status, text } = await send((onResponse) => request(options, onResponse));
    return { ok: status === 200, text: `${status} ${text}` };
  } catch (error) {
    return { ok: false, text: (error as Error).message };
  }
}

/** The address of a name in the pod's /etc/hosts. */
export function lookUp(hostAliases: readonly HostAlias[], name: string): string | undefined {
  return hostAliases.find(({ hostnames }) => hostnames.includes(name))?.ip;
}
