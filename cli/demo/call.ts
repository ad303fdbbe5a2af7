import { request } from "node:http";

/** The result of a pod's HTTP request. */
interface CallResult {
  readonly ok: boolean;
  readonly text: string;
}

const TIMEOUT_MS = 3_000;

/**
 * Sends a pod's request for a public name. `at` replaces the pod's resolver, and has a local port (a real pod would
 * use port 80 of a real ClusterIP).
 */
export function call(name: string, at: { readonly address: string; readonly port: number }): Promise<CallResult> {
  return new Promise((resolve) => {
    const options = { host: at.address, port: at.port, path: "/", headers: { host: name }, agent: false };
    const outgoing = request({ ...options, timeout: TIMEOUT_MS }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        text += chunk;
      });
      response.on("end", () =>
        resolve({ ok: response.statusCode === 200, text: `${response.statusCode} ${text.trim()}` }),
      );
    });
    outgoing.on("timeout", () => outgoing.destroy(new Error(`no response within ${TIMEOUT_MS} ms`)));
    outgoing.on("error", (error) => resolve({ ok: false, text: error.message }));
    outgoing.end();
  });
}
