import express, { type ErrorRequestHandler, type Express, type RequestHandler } from "express";
import { describeError, hasCode } from "../errors/errors.ts";
import { MAX_WARNING } from "../hosts/select.ts";
import type { Reason } from "../hosts/types.ts";
import type { Logger } from "../observe/log.ts";
import { type AdmissionRequest, decodeReview, encodeAnswer } from "./admission.ts";
import { type Decision, decide, type OptIn } from "./decide.ts";
import type { LoadedMap } from "./loaded.ts";
import type { WebhookMetrics } from "./metrics.ts";
import { encodePatch } from "./patch.ts";

export interface AppOptions {
  /** The map as of now; undefined until one was loaded. */
  readonly map: () => LoadedMap | undefined;
  readonly metrics: WebhookMetrics;
  readonly log: Logger;
  /** Larger bodies are refused with 413. */
  readonly maxBodyBytes: number;
  /** Makes the decision; another one only in tests. */
  readonly decide?: typeof decide;
}

const OPT_INS: readonly OptIn[] = ["namespace", "pod"];

/**
 * POST /mutate/namespace and /mutate/pod, transport only. A request that is no review gets 4xx and a sentence; a review is always
 * answered with `allowed: true`, also when something of ours fails.
 */
export function createApp(options: AppOptions): Express {
  const app = express();
  app.disable("x-powered-by");
  app.disable("etag");
  // As bytes: the review is parsed once, in decodeReview. The API server does not compress, so nothing is inflated.
  const body = express.raw({ type: "application/json", limit: options.maxBodyBytes, inflate: false });
  for (const optIn of OPT_INS) app.post(`/mutate/${optIn}`, body, mutate(optIn, options));
  app.use(notFound);
  app.use(refuse(options));
  return app;
}

function mutate(optIn: OptIn, options: AppOptions): RequestHandler {
  const { metrics, log } = options;
  return (req, res) => {
    const started = performance.now();
    const request = decodeReview(req.body);
    const { code, answer } = answerTo(request, optIn, options);
    res.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(answer) });
    res.end(answer);
    metrics.admitted(code, optIn, (performance.now() - started) / 1000);
    log.debug({ code, optIn, namespace: request.namespace }, "pod answered");
  };
}

function answerTo(request: AdmissionRequest, optIn: OptIn, options: AppOptions): { code: string; answer: string } {
  const { uid, namespace } = request;
  try {
    const decision = (options.decide ?? decide)(request, optIn, options.map());
    const { warnings, patch } = effectOf(decision);
    if (warnings.length > 0) {
      // Codes alone: the texts hold what tenants wrote.
      const codes = warnings.map(({ code }) => code);
      options.log.warn({ code: decision.code, optIn, namespace, warnings: codes }, "pod admitted with warnings");
    }
    return { code: decision.code, answer: encodeAnswer(uid, { patch, warnings: warnings.map(({ text }) => text) }) };
  } catch (error) {
    options.log.error(
      { code: "internal-error", optIn, namespace, error: describeError(error) },
      "pod admitted unchanged",
    );
    const warnings = ["switchback: internal error, the pod is admitted without hostAliases (see the webhook's log)"];
    return { code: "internal-error", answer: encodeAnswer(uid, { warnings }) };
  }
}

function effectOf(decision: Decision): { warnings: readonly Reason[]; patch?: string | undefined } {
  if (decision.inject) {
    return { warnings: decision.chosen.warnings, patch: encodePatch(decision.pod, decision.injection) };
  }
  const { code, text, warn } = decision;
  return { warnings: warn ? [{ code, text: `switchback: ${text}`.slice(0, MAX_WARNING) }] : [] };
}

const notFound: RequestHandler = (_req, res) => {
  res.status(404).type("text/plain").send("POST /mutate/namespace or /mutate/pod\n");
};

/** Errors of body parsing carry a status; ours mean a malformed review. Anything else is a fault of ours, and never ends the process. */
function refuse({ metrics, log }: AppOptions): ErrorRequestHandler {
  return (error: unknown, _req, res, _next) => {
    const status = hasCode(error, "input-invalid") ? 400 : (clientStatus(error) ?? 500);
    metrics.refused(status);
    const reason = describeError(error);
    if (status === 500) log.error({ code: "internal-error", error: reason }, "request refused");
    else log.warn({ code: "request-refused", status, reason }, "request refused");
    if (res.headersSent || res.destroyed) return;
    res
      .status(status)
      .type("text/plain")
      .send(`${status === 500 ? "internal error" : reason}\n`);
  };
}

/** The status that body-parser and the router put on their errors. */
function clientStatus(error: unknown): number | undefined {
  const status = (error as { status?: unknown } | null)?.status;
  return typeof status === "number" && status >= 400 && status < 500 ? status : undefined;
}
