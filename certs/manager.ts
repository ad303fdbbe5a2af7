import type { Reason } from "#hostmap/types.ts";
import type { CertsConfig } from "#lib/config/schema.ts";
import { describeError } from "#lib/errors/errors.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { type ReconcileResult, Reconciler } from "#lib/kube/reconciler.ts";
import { startPromptTimer, steadyNow } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { issueAuthority, issueLeaf, type MakeKey } from "./issue.ts";
import { type BundleView, CA_SECRET, certObjects, type SecretContent, TLS_SECRET } from "./objects.ts";
import { type Certificate, chainsTo, loadPair, parseCertificates, readableAuthorities } from "./pem.ts";
import { type CertFacts, type Decision, decide, type Facts, type Sights } from "./rules.ts";

interface CertManagerOptions {
  readonly config: CertsConfig;
  readonly namespace: string;
  /** The DNS names of the serving certificate, see `servingNames`. */
  readonly names: readonly string[];
  readonly client: KubeClient;
  /** Unix milliseconds. */
  readonly now: () => number;
  readonly log: Logger;
  /** Aborted when this process no longer leads, or ends. */
  readonly signal: AbortSignal;
  readonly makeKey?: MakeKey;
}

/** For `/status` and the metrics. Times are Unix milliseconds, or undefined if unknown. */
export interface CertStatus {
  readonly mode: CertsConfig["mode"];
  /** What was written last, or why nothing is due. */
  readonly state: Reason;
  readonly caNotAfter?: number | undefined;
  readonly leafNotAfter?: number | undefined;
  /** How often the caBundle was written. */
  readonly bundleWrites: number;
  /** The last failure, until a turn succeeds. */
  readonly lastError?: { readonly text: string; readonly at: number } | undefined;
}

export interface CertManager {
  status(): CertStatus;
  /** Settles once the signal has aborted; never rejects. */
  readonly done: Promise<void>;
}

/** Limits how late a step is, or less with a short overlap. A recheck costs three small reads. */
const RECHECK_MS = 60_000;
/** The first delay after a failure. It doubles up to `RECHECK_MS`, and events do not shorten it. */
const FIRST_RETRY_MS = 250;
/** Combines the events of one change. */
const GAP_MS = 100;
/** After a write of the caBundle. API servers need a moment to see it. It also limits a fight with another writer. */
const BUNDLE_GAP_MS = 1_000;

const STARTING: Reason = { code: "starting", text: "nothing has been read yet" };
const ELSEWHERE: Reason = { code: "managed-elsewhere", text: "cert-manager or files provide the certificate" };

/** The certificate and key in a Secret. Undefined if they are missing or do not load. */
function pairIn(secret: SecretContent | undefined, name: "ca" | "tls"): Certificate | undefined {
  try {
    return loadPair({ cert: secret?.data[`${name}.crt`] ?? "", key: secret?.data[`${name}.key`] ?? "" });
  } catch {
    return undefined;
  }
}

function leafIn(tls: SecretContent | undefined, names: readonly string[]): Facts["leaf"] {
  const leaf = pairIn(tls, "tls");
  if (leaf === undefined) return undefined;
  const chain = parseCertificates(tls?.data["tls.crt"] ?? "");
  return {
    ...leaf,
    coversNames: names.every((name) => leaf.x509.checkHost(name, { subject: "never" }) !== undefined),
    // The rules pass back what they got from `readableAuthorities`.
    chainsTo: (authority: CertFacts) => chainsTo(chain, authority as Certificate),
  };
}

/**
 * Maintains CA, serving certificate and caBundle while this process is the leader, by the rules in `rules.ts`. In the
 * modes `cert-manager` and `files` it changes nothing and only reports the mode.
 */
export function runCertManager(options: CertManagerOptions): CertManager {
  const { config, names, now, log, signal, makeKey } = options;
  const { mode } = config;
  if (mode !== "self-signed") {
    return { status: () => ({ mode, state: ELSEWHERE, bundleWrites: 0 }), done: Promise.resolve() };
  }
  const objects = certObjects(options.client, options.namespace, signal);
  const overlapMs = config.overlapSeconds * 1000;
  const recheckMs = Math.min(RECHECK_MS, Math.max(overlapMs, 1_000));
  let status: CertStatus = { mode, state: STARTING, bundleWrites: 0 };
  let sights: Sights = {};
  let pauseMs = 0;

  /** `bundleError` is why the bundle is unknown. The facts are what the rules need of the objects. */
  const read = async (writeError: unknown) => {
    let view: BundleView | undefined;
    let bundleError = writeError;
    try {
      view = await objects.readBundle();
    } catch (error) {
      bundleError = error;
    }
    const [tls, ca] = [await objects.readSecret(TLS_SECRET), await objects.readSecret(CA_SECRET)];
    const bundles = bundleError === undefined ? (view?.bundles ?? []) : undefined;
    const signer = pairIn(ca, "ca");
    const facts: Facts = {
      signer: signer?.x509.ca ? signer : undefined,
      leaf: leafIn(tls, names),
      offered: readableAuthorities(tls?.data["ca.crt"] ?? ""),
      entries: bundles?.map((text) => ({ text, authorities: readableAuthorities(text) })),
    };
    return { view, tls, ca, facts, bundleError };
  };

  const carryOut = async ({ write, bundle }: Decision, { view, tls, ca }: Awaited<ReturnType<typeof read>>) => {
    if (write === "signer") {
      const { cert, key } = await issueAuthority({ now: now(), days: config.caDays }, makeKey);
      await objects.writeSecret(CA_SECRET, { "ca.crt": cert, "ca.key": key }, ca);
    } else if (write === "leaf") {
      const signer = { cert: ca?.data["ca.crt"] ?? "", key: ca?.data["ca.key"] ?? "" };
      const { cert, key } = await issueLeaf(signer, names, { now: now(), days: config.leafDays }, makeKey);
      await objects.writeSecret(TLS_SECRET, { "tls.crt": cert, "tls.key": key, "ca.crt": bundle }, tls);
    } else if (write === "bundle" && view !== undefined) {
      await objects.writeBundle(bundle, view);
    }
  };

  /** Writes at most once. If the bundle cannot be written, only what relies on it waits. */
  const turn = async (writeError?: unknown): Promise<ReconcileResult> => {
    pauseMs = GAP_MS;
    const found = await read(writeError);
    const clocks = { wall: now(), steady: steadyNow() };
    const decision = decide(found.facts, sights, clocks, overlapMs);
    const { write, reason } = decision;
    sights = decision.sights;
    try {
      await carryOut(decision, found);
    } catch (error) {
      if (write !== "bundle" || signal.aborted) throw error;
      return await turn(error);
    }
    if (write !== undefined || status.state.code !== reason.code) log.info({ write, ...reason }, "certificates");
    status = {
      ...status,
      state: reason,
      caNotAfter: found.facts.signer?.notAfter,
      leafNotAfter: found.facts.leaf?.notAfter,
      bundleWrites: status.bundleWrites + (write === "bundle" ? 1 : 0),
    };
    if (found.bundleError !== undefined) throw found.bundleError;
    status = { ...status, lastError: undefined };
    if (write !== undefined) pauseMs = write === "bundle" ? BUNDLE_GAP_MS : 0;
    return { requeueAfter: write === undefined ? recheckMs : 0 };
  };

  const onError = (error: unknown): void => {
    const text = describeError(error);
    if (signal.aborted) return;
    if (status.lastError?.text !== text) log.error({ error: text }, "certificates: failed, will retry");
    status = { ...status, lastError: { text, at: now() } };
  };

  const reconciler = new Reconciler({
    reconcile: () => turn(),
    retry: { backoff: createBackoff(FIRST_RETRY_MS, RECHECK_MS), onError, hold: true },
    pauseMs: () => pauseMs,
    startTimer: startPromptTimer,
  });
  const ended = Promise.withResolvers<void>();
  const end = () => ended.resolve(reconciler.stop());
  signal.addEventListener("abort", end, { once: true });
  if (signal.aborted) end();
  else {
    objects.watch(() => reconciler.enqueue(), log);
    reconciler.enqueue();
  }
  return { status: () => status, done: ended.promise };
}
