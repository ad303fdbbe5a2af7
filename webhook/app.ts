import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { type Request, type Response, Router } from "express";
import { describeError } from "#lib/errors/errors.ts";
import { steadyNow } from "#lib/kube/time.ts";
import { LogThrottle } from "#lib/telemetry/log-throttle.ts";
import { type AnswerOptions, answerReview, type Path } from "./admission-response.ts";
import { decodeReview, encodeAnswer } from "./admission-review.ts";
import { deliveriesOf } from "./injection-decision.ts";

export type AppOptions = Omit<AnswerOptions, "throttle">;

/** A request as the router and the reader of its body complete it. */
interface Posted extends IncomingMessage {
  body: Buffer;
}

/** Handles a request with Node's own methods: those of Express' app do not exist here. */
type Handler = (req: Posted, res: ServerResponse, next: () => void) => void;
/** `error`: the fault of the webhook that is the reason. */
type Refuse = (res: ServerResponse, status: number, text: string, error?: unknown) => void;

/** Within this time, one line is logged for each namespace and reason. */
const LOG_PERIOD_MS = 60_000;
/** A larger body is refused with 413. An API server stores pods of up to 1.5 MiB. */
const MAX_BODY_BYTES = 3 * 1024 * 1024;
/** Maximum bytes of all unfinished bodies together. The bodies of 600 ordinary pods take 6 MB. */
const BUDGET_BYTES = 8 * 1024 * 1024;
/** Memory of a chunk in addition to its bytes. It is counted, because a client may send them one by one. */
const CHUNK_BYTES = 256;

/**
 * Serves three routes. POST /mutate/namespace and /mutate/pod take admission reviews. The path states what opted the
 * pod in. It may end with the value of the label `switchback.dev/via` of the pod's namespace, if that is not the
 * install's default. A body always gets `allowed: true`, even if it is no review, and after an internal error. POST
 * /reachable takes the same reviews, decides nothing, and counts nothing: the controller asks it whether the API server
 * reaches the webhook. Other requests get 4xx and a sentence.
 *
 * It is Express' router without Express' app. The app replaces the prototype of each request and response, and V8 then
 * runs all of node:http on them slower: a tenth of an admission.
 */
export function createApp(appOptions: AppOptions): RequestListener {
  const options = { ...appOptions, throttle: new LogThrottle(LOG_PERIOD_MS, steadyNow) };
  const { metrics, log, throttle } = options;
  const refuse: Refuse = (res, status, text, error) => {
    metrics.refused(status);
    const heldBack = throttle.pass(`refused ${text}`);
    if (heldBack !== undefined) {
      if (error === undefined) log.warn({ code: "request-refused", status, reason: text, heldBack }, "request refused");
      else log.error({ code: "internal-error", error: describeError(error), heldBack }, "request failed");
    }
    // The client may have disconnected.
    if (!res.headersSent && !res.destroyed) res.writeHead(status, { "content-type": "text/plain" }).end(`${text}\n`);
  };
  const readBody = bodyReader(refuse);
  const router = Router();
  const mutate = (path: Path): Handler => {
    return ({ body }, res) => {
      const receivedAt = performance.now();
      send(res, answerReview(decodeReview(body), path, options, receivedAt));
    };
  };
  for (const optIn of ["namespace", "pod"] as const) {
    router.post(`/mutate/${optIn}`, readBody, mutate({ optIn }));
    for (const via of deliveriesOf(options.via ?? {}))
      router.post(`/mutate/${optIn}/${via}`, readBody, mutate({ optIn, via }));
  }
  const reachable: Handler = ({ body }, res) => send(res, encodeAnswer(decodeReview(body).uid));
  router.post("/reachable", readBody, reachable);
  return (req, res) =>
    router(req as Request, res as Response, (error) => {
      if (error === undefined) return refuse(res, 404, "POST /mutate/namespace or /mutate/pod");
      refuse(res, 500, "internal error", error);
    });
}

function send(res: ServerResponse, text: string): void {
  res.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(text) }).end(text);
}

/**
 * Reads bodies into `req.body`. It limits the total of those that are not complete, unlike
 * express.raw: any client that reaches the port could otherwise exhaust the memory. Beyond it, the connection of the
 * oldest one is closed. An API server sends a body at once, so it is not the oldest.
 */
function bodyReader(refuse: Refuse): Handler {
  /** The bytes of each unfinished body, oldest first, and of all. A request also closes after its end. */
  const held = new Map<Posted, number>();
  let total = 0;
  const release = (req: Posted): void => {
    total -= held.get(req) ?? 0;
    held.delete(req);
  };
  return (req, res, next) => {
    const refusal = refusalOf(req);
    if (refusal !== undefined) return refuse(res, ...refusal);
    const chunks: Buffer[] = [];
    const append = (chunk: Buffer): void => {
      chunks.push(chunk);
      const bytes = chunk.length + CHUNK_BYTES;
      held.set(req, (held.get(req) ?? 0) + bytes);
      total += bytes;
      for (const oldest of held.keys()) {
        if (total <= BUDGET_BYTES) break;
        release(oldest);
        oldest.destroy();
      }
    };
    const end = (): void => {
      const [first] = chunks;
      req.body = first !== undefined && chunks.length === 1 ? first : Buffer.concat(chunks);
      next();
    };
    req
      .on("data", append)
      .on("end", end)
      .on("close", () => release(req));
  };
}

/**
 * The status and the reason for which a request is refused by its headers alone. API servers send the length of each
 * body (client-go, rest.Request).
 */
function refusalOf({ headers }: IncomingMessage): [status: number, text: string] | undefined {
  const length = headers["content-length"];
  if (!/^application\/json *(;|$)/i.test(headers["content-type"] ?? ""))
    return [415, "the body must be application/json"];
  if ((headers["content-encoding"] ?? "identity") !== "identity") return [415, "the body must not be compressed"];
  if (length === undefined) return [411, "the request has no content-length"];
  if (Number(length) > MAX_BODY_BYTES) return [413, `the body is larger than ${MAX_BODY_BYTES} bytes`];
  return undefined;
}
