import express, { type ErrorRequestHandler, type Express, type RequestHandler, type Response } from "express";
import { BY_HOSTS } from "#hostmap/delivery.ts";
import { describeError, hasCode } from "#lib/errors/errors.ts";
import { steadyNow } from "#lib/kube/time.ts";
import { LogThrottle } from "#lib/telemetry/log-throttle.ts";
import { type AnswerOptions, answerReview, type Path } from "./admission-response.ts";
import { type AdmissionRequest, decodeReview, encodeAnswer } from "./admission-review.ts";
import type { Delivery } from "./delivery.ts";
import { type BodyReader, createBodyReader, type Refusal } from "./request-body.ts";

export interface AppOptions extends Omit<AnswerOptions, "throttle"> {
  /** Larger bodies are refused with 413. */
  readonly maxBodyBytes: number;
}

/** Within this time, one line is logged for each namespace and reason. */
const LOG_PERIOD_MS = 60_000;

/**
 * A path states what opted the pod in. It may end with the value of the label `switchback.dev/via` of the pod's
 * namespace, if that is not the install's default.
 */
function pathsOf(deliveries: readonly Delivery[]): readonly (readonly [path: string, about: Path])[] {
  const names = [BY_HOSTS, ...deliveries.map(({ name }) => name)];
  return (["namespace", "pod"] as const).flatMap((optIn) => [
    [`/mutate/${optIn}`, { optIn }] as const,
    ...names.map((delivery) => [`/mutate/${optIn}/${delivery}`, { optIn, delivery }] as const),
  ]);
}

/**
 * Serves POST /mutate/namespace, /mutate/pod and the paths below them. It handles only the transport. A request that
 * is not a review gets 4xx and a sentence. A review always gets `allowed: true`, even after an internal error. POST
 * /reachable takes the same reviews, decides nothing, and counts nothing. The controller uses it to find out whether
 * the API server reaches the webhook.
 */
export function createApp(appOptions: AppOptions): Express {
  const options = { ...appOptions, throttle: new LogThrottle(LOG_PERIOD_MS, steadyNow) };
  const app = express();
  app.disable("x-powered-by");
  app.disable("etag");
  const read = createBodyReader(options.maxBodyBytes);
  for (const [path, about] of pathsOf(options.delivery?.deliveries ?? [])) {
    app.post(
      path,
      answerWith((request, receivedAt) => answerReview(request, about, options, receivedAt), read, options),
    );
  }
  app.post(
    "/reachable",
    answerWith(({ uid }) => encodeAnswer(uid, { warnings: [] }), read, options),
  );
  app.use(notFound);
  app.use(onError(options));
  return app;
}

function answerWith(
  answerTo: (request: AdmissionRequest, receivedAt: number) => string,
  read: BodyReader,
  options: AnswerOptions,
): RequestHandler {
  const answer = (body: Buffer | Refusal, res: Response): void => {
    const receivedAt = performance.now();
    const request = Buffer.isBuffer(body) ? decode(body) : body;
    if ("status" in request) {
      refuse(request, res, options);
      return;
    }
    const text = answerTo(request, receivedAt);
    res.writeHead(200, { "content-type": "application/json", "content-length": text.length });
    // The answer is ASCII. Writing it as UTF-8 would scan every byte of the patch once more.
    res.end(text, "latin1");
  };
  return (req, res, next) => {
    read(req, (body) => {
      try {
        answer(body, res);
      } catch (error) {
        // Express catches what a handler throws, but not what is thrown later.
        next(error);
      }
    });
  };
}

function decode(body: Buffer): AdmissionRequest | Refusal {
  try {
    return decodeReview(body);
  } catch (error) {
    if (hasCode(error, "input-invalid")) return { status: 400, text: error.message };
    throw error;
  }
}

const notFound: RequestHandler = (_req, res) => {
  res.status(404).type("text/plain").send("POST /mutate/namespace or /mutate/pod\n");
};

function refuse({ status, text }: Refusal, res: Response, { metrics, log, throttle }: AnswerOptions): void {
  metrics.refused(status);
  const suppressed = throttle.pass(`refused ${text}`);
  if (suppressed !== undefined)
    log.warn({ code: "request-refused", status, reason: text, heldBack: suppressed }, "request refused");
  // The client may have disconnected.
  if (!res.destroyed) res.status(status).type("text/plain").send(`${text}\n`);
}

/** Answers errors of Express (a path that does not decode) and of the webhook. They never end the process. */
function onError({ metrics, log, throttle }: AnswerOptions): ErrorRequestHandler {
  return (error: unknown, _req, res, _next) => {
    const status = clientStatus(error) ?? 500;
    metrics.refused(status);
    const suppressed = throttle.pass(`error ${status}`);
    if (suppressed !== undefined)
      log.error(
        { code: "internal-error", status, error: describeError(error), heldBack: suppressed },
        "request failed",
      );
    if (res.headersSent || res.destroyed) return;
    res
      .status(status)
      .type("text/plain")
      .send(status === 500 ? "internal error\n" : "bad request\n");
  };
}

function clientStatus(error: unknown): number | undefined {
  const status = (error as { status?: unknown } | null)?.status;
  return typeof status === "number" && status >= 400 && status < 500 ? status : undefined;
}
