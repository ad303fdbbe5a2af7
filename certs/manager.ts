import type { Reason } from "#hostmap/types.ts";
import type { CertsConfig } from "#lib/config/schema.ts";
import { describeError } from "#lib/errors/errors.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import { startPromptTimer } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { BundleWriter } from "./ca-bundle.ts";
import { type MakeKey, servingNames } from "./issue.ts";
import { runTurn, type TurnContext, type TurnResult } from "./reconcile.ts";
import type { BundleState } from "./rotation.ts";
import type { SecretStore } from "./secret-store.ts";

export interface CertManagerOptions {
  readonly config: CertsConfig;
  readonly namespace: string;
  readonly serviceName: string;
  readonly clusterDomain: string;
  readonly store: SecretStore;
  readonly bundleWriter: BundleWriter;
  /** Unix milliseconds. */
  readonly now: () => number;
  readonly log: Logger;
  /** Aborted when this process no longer leads, or ends. */
  readonly signal: AbortSignal;
  readonly makeKey?: MakeKey;
  /** Minimum time between two turns, in milliseconds. Only tests set it. */
  readonly gapMs?: number;
}

/** For `/status` and the metrics. Times are Unix milliseconds, or undefined if unknown. */
export interface CertStatus {
  readonly mode: CertsConfig["mode"];
  /** The state of the rotation. */
  readonly state: Reason;
  readonly bundle: BundleState;
  readonly caNotAfter: number | undefined;
  readonly leafNotAfter: number | undefined;
  /** When a step is next due. */
  readonly nextStepAt: number | undefined;
  /** How often another writer's change to the caBundle was reverted. */
  readonly bundleRestored: number;
  /** The last failure, until a turn succeeds. */
  readonly lastError: { readonly text: string; readonly at: number } | undefined;
}

export interface CertManager {
  status(): CertStatus;
  /** Settles once the signal has aborted; never rejects. */
  readonly done: Promise<void>;
}

/** Limits the delay after a missed event. A recheck costs three small reads. */
const RECHECK_MS = 60_000;
/** The first delay after a failure. It doubles up to `RECHECK_MS`. */
const FIRST_RETRY_MS = 1_000;
/** Combines the events of one change, and limits the writes while another writer changes the caBundle. */
const GAP_MS = 100;
/** After this many restores within a minute, the bundle is restored at most once per `CONTESTED_GAP_MS`. */
const CONTESTED_RESTORES = 10;
const CONTESTED_GAP_MS = 10_000;

const ELSEWHERE: Readonly<Record<"cert-manager" | "files", Reason>> = {
  "cert-manager": { code: "managed-elsewhere", text: "cert-manager maintains the certificate and the caBundle" },
  files: {
    code: "managed-elsewhere",
    text: "the certificate is read from files, and the caBundle is set at installation",
  },
};

/** Maintains the status, and counts how often the bundle was restored. */
function createReport(mode: CertsConfig["mode"], log: Logger, now: () => number) {
  let status: CertStatus = {
    mode,
    state: mode === "self-signed" ? { code: "starting", text: "nothing has been read yet" } : ELSEWHERE[mode],
    bundle: "unknown",
    caNotAfter: undefined,
    leafNotAfter: undefined,
    nextStepAt: undefined,
    bundleRestored: 0,
    lastError: undefined,
  };
  let restores: number[] = [];
  const failed = (error: unknown) => {
    const text = describeError(error);
    if (status.lastError?.text !== text) log.error({ error: text }, "certificates: turn failed, will retry");
    status = { ...status, lastError: { text, at: now() } };
  };
  return {
    status: () => status,
    failed,
    contested: () => restores.length >= CONTESTED_RESTORES,
    succeeded(result: TurnResult) {
      // This turn began with a publish, so another writer changed a confirmed bundle.
      const restored = status.bundle === "current" && result.steps[0] === "publish";
      restores = [...restores, ...(restored ? [now()] : [])].filter((time) => now() - time < 60_000);
      if (restored) log.warn({ code: "bundle-restored", lastMinute: restores.length }, "caBundle restored");
      if (status.state.code !== result.reason.code) log.info({ ...result.reason }, "certificates: state");
      if (status.lastError !== undefined && result.bundleError === undefined) log.info({}, "certificates: recovered");
      status = {
        ...status,
        state: result.reason,
        bundle: result.bundle,
        caNotAfter: result.caNotAfter,
        leafNotAfter: result.leafNotAfter,
        nextStepAt: result.at,
        bundleRestored: status.bundleRestored + (restored ? 1 : 0),
        lastError: result.bundleError === undefined ? undefined : status.lastError,
      };
    },
  };
}

function contextOf(options: CertManagerOptions): TurnContext {
  const { config, store, bundleWriter, now, log, makeKey } = options;
  return {
    store,
    bundleWriter,
    names: servingNames(options.serviceName, options.namespace, options.clusterDomain),
    caDays: config.caDays,
    leafDays: config.leafDays,
    overlapMs: config.overlapSeconds * 1000,
    now,
    log,
    ...(makeKey && { makeKey }),
  };
}

/**
 * Maintains CA, serving certificate and caBundle while this process is the leader. All its state is in the Secrets, so
 * another process can continue at any point, also in the middle of a rotation. In the modes `cert-manager` and `files`
 * it changes nothing and only reports the mode.
 */
export function runCertManager(options: CertManagerOptions): CertManager {
  const report = createReport(options.config.mode, options.log, options.now);
  if (options.config.mode !== "self-signed") return { status: report.status, done: Promise.resolve() };
  return { status: report.status, done: maintain(options, report) };
}

async function maintain(options: CertManagerOptions, report: ReturnType<typeof createReport>): Promise<void> {
  const { store, bundleWriter, now, signal } = options;
  const context = contextOf(options);
  const gapMs = options.gapMs ?? GAP_MS;
  const pauseMs = () => (report.contested() ? CONTESTED_GAP_MS : gapMs);
  const retries = createBackoff(FIRST_RETRY_MS, RECHECK_MS);
  let isObstructed = false;
  /** Events must not shorten this wait: the obstruction causes them. */
  let heldMs = 0;
  const reconciler = new Reconciler({
    reconcile: async () => {
      isObstructed = false;
      heldMs = 0;
      const result = await runTurn(context, signal);
      isObstructed = result.isObstructed;
      report.succeeded(result);
      if (result.bundleError !== undefined) throw result.bundleError;
      return { requeueAfter: pauseMs() + Math.max(gapMs, Math.min(RECHECK_MS, result.at - now())) };
    },
    retry: {
      backoff: {
        next: () => {
          const retryMs = pauseMs() + retries.next();
          heldMs = isObstructed ? retryMs : 0;
          return retryMs;
        },
        reset: retries.reset,
      },
      onError: (error) => {
        if (!signal.aborted) report.failed(error);
      },
    },
    pauseMs: () => Math.max(heldMs, pauseMs()),
    startTimer: startPromptTimer,
  });
  const ended = Promise.withResolvers<void>();
  signal.addEventListener("abort", () => ended.resolve(reconciler.stop()), { once: true });
  const changed = () => reconciler.enqueue();
  store.watch(changed, signal);
  bundleWriter.watch(changed, signal);
  if (signal.aborted) return;
  changed();
  await ended.promise;
}
