import type { Reason } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { LogThrottle } from "#lib/telemetry/log-throttle.ts";
import { type AdmissionRequest, encodeAnswer } from "./admission-review.ts";
import type { InjectionCache } from "./injection-cache.ts";
import { decideInjection, type InjectionDecision, type OptIn, type PodsVia } from "./injection-decision.ts";
import { patchOperations } from "./json-patch.ts";
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

const FAULT: InjectionDecision = {
  inject: false,
  code: "internal-error",
  text: "internal error, the pod is admitted without hostAliases (see the webhook's log)",
  warn: true,
};

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
  const { metrics, log } = options;
  const { decision, patch } = decide(request, path, options);
  const warnings = warningsOf(decision);
  const answer = encodeAnswer(request.uid, { patch, warnings: warnings.map(({ text }) => text) });
  metrics.admitted(decision.code, optIn, (performance.now() - receivedAt) / 1000);
  if (warnings.length > 0) report(decision.code, warnings, request, options);
  log.debug({ code: decision.code, optIn, namespace: request.namespace }, "pod answered");
  return answer;
}

function decide(request: AdmissionRequest, { optIn, via: namespace }: Path, options: AnswerOptions) {
  try {
    const decision = decideInjection(request, optIn, options.map(), options.via && { ...options.via, namespace });
    if (!decision.inject) return { decision };
    return { decision, patch: patchOperations(decision.pod, decision.injection, decision.changes) };
  } catch (error) {
    options.log.error({ code: FAULT.code, optIn, error: describeError(error) }, "the decision about a pod failed");
    return { decision: FAULT };
  }
}

function warningsOf(decision: InjectionDecision): readonly Reason[] {
  if (decision.inject) return decision.warnings;
  const { code, text, warn } = decision;
  return warn ? [{ code, text: `switchback: ${text}` }] : [];
}

/** Counts each warning and logs its code. The text is not logged, because it contains what tenants wrote. */
function report(
  code: string,
  warnings: readonly Reason[],
  { namespace }: AdmissionRequest,
  { metrics, log, throttle }: AnswerOptions,
): void {
  const codes = warnings.map((warning) => warning.code);
  for (const each of codes) metrics.warned(each);
  const heldBack = throttle.pass(`${namespace} ${code} ${codes}`);
  if (heldBack !== undefined) log.warn({ code, namespace, warnings: codes, heldBack }, "pod admitted with warnings");
}
