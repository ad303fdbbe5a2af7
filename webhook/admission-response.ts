import { MAX_WARNING } from "#hostmap/pod-selection.ts";
import type { Reason } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { LogThrottle } from "#lib/telemetry/log-throttle.ts";
import { type AdmissionRequest, encodeAnswer } from "./admission-review.ts";
import type { DeliveryChoice } from "./delivery.ts";
import type { InjectionCache } from "./injection-cache.ts";
import { decideInjection, type InjectionDecision, type OptIn } from "./injection-decision.ts";
import { encodePatch } from "./json-patch.ts";
import type { WebhookMetrics } from "./metrics.ts";

export interface AnswerOptions {
  /** The current map; undefined until one is loaded. */
  readonly map: () => InjectionCache | undefined;
  readonly metrics: WebhookMetrics;
  readonly log: Logger;
  readonly throttle: LogThrottle;
  /** How pods get the names; default: by hostAliases. */
  readonly delivery?: DeliveryChoice;
  /** Decides about the pod; replaced only in tests. */
  readonly decide?: typeof decideInjection;
}

const FAULT: InjectionDecision = {
  inject: false,
  code: "internal-error",
  text: "internal error, the pod is admitted without hostAliases (see the webhook's log)",
  warn: true,
};

/** What the path of a request says about the pod's namespace. */
export interface Path {
  readonly optIn: OptIn;
  /** The delivery that the namespace's label selects. Undefined without the label, or for the install's default. */
  readonly delivery?: string;
}

/**
 * Answers a review, as JSON in ASCII. The answer allows the pod even if the decision fails. `receivedAt` is the time
 * of the review's last byte, by `performance.now()`.
 */
export function answerReview(
  request: AdmissionRequest,
  path: Path,
  options: AnswerOptions,
  receivedAt: number,
): string {
  const { optIn } = path;
  const { decision, patch } = decide(request, path, options);
  const warnings = warningsOf(decision);
  const answer = encodeAnswer(request.uid, { patch, warnings: warnings.map(({ text }) => text) });
  options.metrics.admitted(decision.code, optIn, (performance.now() - receivedAt) / 1000);
  if (warnings.length > 0) report(decision, warnings, request, options);
  options.log.debug({ code: decision.code, optIn, namespace: request.namespace }, "pod answered");
  return answer;
}

function decide(request: AdmissionRequest, { optIn, delivery: namespace }: Path, options: AnswerOptions) {
  try {
    const choice = options.delivery && { ...options.delivery, namespace };
    const decision = (options.decide ?? decideInjection)(request, optIn, options.map(), choice);
    if (!decision.inject) return { decision, patch: undefined };
    return { decision, patch: encodePatch(decision.pod, decision.injection, decision.changes) };
  } catch (error) {
    options.log.error({ code: FAULT.code, optIn, error: describeError(error) }, "the decision about a pod failed");
    return { decision: FAULT, patch: undefined };
  }
}

function warningsOf(decision: InjectionDecision): readonly Reason[] {
  if (decision.inject) return decision.warnings;
  const { code, text, warn } = decision;
  return warn ? [{ code, text: `switchback: ${text}`.slice(0, MAX_WARNING) }] : [];
}

/** Counts each warning and logs its code. The text is not logged, because it contains what tenants wrote. */
function report(
  decision: InjectionDecision,
  warnings: readonly Reason[],
  request: AdmissionRequest,
  options: AnswerOptions,
): void {
  const codes = warnings.map(({ code }) => code);
  for (const code of codes) options.metrics.warned(code);
  const { namespace } = request;
  const suppressed = options.throttle.pass(`${namespace} ${decision.code} ${codes}`);
  if (suppressed === undefined) return;
  options.log.warn(
    { code: decision.code, namespace, warnings: codes, heldBack: suppressed },
    "pod admitted with warnings",
  );
}
