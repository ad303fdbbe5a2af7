import { once } from "node:events";
import type { IncomingHttpHeaders } from "node:http";
import { Agent, request } from "node:https";
import { text } from "node:stream/consumers";

/** An answer of the API server. `body` is parsed if it is JSON; otherwise it is text. */
export interface ApiAnswer {
  status: number;
  body: unknown;
  /** Names are in lower case, as Node.js returns them. */
  headers: IncomingHttpHeaders;
}

export interface ApiRequest {
  method?: string;
  /** Includes the query, such as `/api/v1/namespaces?limit=1`. */
  path: string;
  /** A text is sent unchanged; other values are sent as JSON. */
  body?: unknown;
  contentType?: string;
  headers?: Readonly<Record<string, string>>;
  /** Bearer token. */
  token: string;
}

/** A minimal client for the harness, so that the tests do not use the product to test the product. */
export class Api {
  readonly #url: string;
  readonly #agent: Agent;

  constructor(url: string, ca: string) {
    this.#url = url;
    this.#agent = new Agent({ ca, keepAlive: true, maxSockets: 20 });
  }

  async call({
    method = "GET",
    path,
    body,
    contentType = "application/json",
    headers,
    token,
  }: ApiRequest): Promise<ApiAnswer> {
    const sent = request(new URL(path, this.#url), {
      method,
      agent: this.#agent,
      headers: { ...headers, authorization: `Bearer ${token}`, "content-type": contentType },
    });
    sent.end(body === undefined || typeof body === "string" ? body : JSON.stringify(body));
    const [response] = await once(sent, "response");
    const answer = await text(response);
    const isJson = String(response.headers["content-type"]).startsWith("application/json");
    return { status: response.statusCode, headers: response.headers, body: isJson ? JSON.parse(answer) : answer };
  }

  close(): void {
    this.#agent.destroy();
  }
}
