import type { IncomingMessage, ServerResponse } from "node:http";
import type { Express } from "express";
import { http } from "#lib/http/http.ts";

/** Options of `createServer`. */
interface HttpClasses {
  readonly IncomingMessage: typeof IncomingMessage;
  readonly ServerResponse: typeof ServerResponse;
}

/**
 * Returns request and response classes for the server of an app. Express sets the prototype of each request and
 * response to `app.request` or `app.response`, which deoptimizes them in V8 and costs a tenth of an admission.
 * Objects that are created with that prototype keep it.
 */
export function classesOf(app: Express): HttpClasses {
  class Request extends http.IncomingMessage {}
  class Response<Of extends IncomingMessage = IncomingMessage> extends http.ServerResponse<Of> {}
  Object.setPrototypeOf(Request.prototype, app.request);
  Object.setPrototypeOf(Response.prototype, app.response);
  Object.assign(app, { request: Request.prototype, response: Response.prototype });
  return { IncomingMessage: Request, ServerResponse: Response };
}
