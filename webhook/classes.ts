import type { IncomingMessage, ServerResponse } from "node:http";
import type { Express } from "express";
import { http } from "../telemetry/http.ts";

/** Options of `createServer`. */
interface HttpClasses {
  readonly IncomingMessage: typeof IncomingMessage;
  readonly ServerResponse: typeof ServerResponse;
}

/**
 * Classes for the server that an app listens on. Express gives each request and response a new prototype (`app.request`,
 * `app.response`), after which V8 treats them as strangers everywhere in node:http: a tenth of an admission. Objects that are
 * born with that prototype are left as they are.
 */
export function classesOf(app: Express): HttpClasses {
  class Request extends http.IncomingMessage {}
  class Response<Of extends IncomingMessage = IncomingMessage> extends http.ServerResponse<Of> {}
  Object.setPrototypeOf(Request.prototype, app.request);
  Object.setPrototypeOf(Response.prototype, app.response);
  Object.assign(app, { request: Request.prototype, response: Response.prototype });
  return { IncomingMessage: Request, ServerResponse: Response };
}
