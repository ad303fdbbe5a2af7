import { describeError } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { LogThrottle } from "#lib/telemetry/log-throttle.ts";
import { type AdmissionRequest, encodeAnswer } from "./admission-review.ts";
import type { InjectionCache } from "./injection-cache.ts";
import { type Decision, decideInjection, type OptIn, type PodsVia, skip } from "./injection-decision.ts";
import type { WebhookMetrics } from "./metrics.ts";

export interface AnswerOptions {
  /** The current map; undefined until one is loaded. */
  readonly map: () => InjectionCache | undefined;
  readonly metrics: WebhookMetrics;
  readonly log: Logger;
  readonly throttle: LogThrottle;
  /** How pods get the names; default: by hostAliases. */
  readonly via?: PodsVia;
}

/** What the path of a request says about the pod's namespace. */
export interface Path {
  readonly optIn: OptIn;
  /** The namespace's label `switchback.dev/via`, if it is not the default of the install. */
  readonly via?: string | undefined;
}

const FAULT = skip("internal-error", "internal error, the pod is admitted without hostAliases (see the webhook's log)");

/**
 * Answers a review, as JSON. The answer allows the pod even if the decision fails. `receivedAt` is the time of the
 * review's last byte, by `performance.now()`.
 */
export function answerReview(
  request: AdmissionRequest,
  path: Path,
  options: AnswerOptions,
  receivedAt: number,
): string {
  const { optIn } = path;
  const { metrics, log, throttle } = options;
  const { uid, namespace } = request;
  const { code, warnings, patch } = decide(request, path, options);
  const answer = encodeAnswer(uid, { patch, warnings: warnings.map(({ text }) => text) });
  metrics.admitted(code, optIn, (performance.now() - receivedAt) / 1000);
  log.debug({ code, optIn, namespace }, "pod answered");
  if (warnings.length === 0) return answer;
  // The text of a warning is not logged, because it contains what tenants wrote.
  const codes = warnings.map((warning) => warning.code);
  for (const each of codes) metrics.warned(each);
  const heldBack = throttle.pass(`${namespace} ${code} ${codes}`);
  if (heldBack !== undefined) log.warn({ code, namespace, warnings: codes, heldBack }, "pod admitted with warnings");
  return answer;
}

function decide(request: AdmissionRequest, { optIn, via: namespace }: Path, options: AnswerOptions): Decision {
  try {
    return decideInjection(request, optIn, options.map(), options.via && { ...options.via, namespace });
  } catch (error) {
    options.log.error({ code: FAULT.code, optIn, error: describeError(error) }, "the decision about a pod failed");
    return FAULT;
  }
}
