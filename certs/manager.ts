import { once } from "node:events";
import type { Reason } from "#hostmap/types.ts";
import type { CertsConfig } from "#lib/config/schema.ts";
import { describeError } from "#lib/errors/errors.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { type ReconcileResult, Reconciler } from "#lib/kube/reconciler.ts";
import { steadyNow } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { MetricsRegistry } from "#lib/telemetry/metrics.ts";
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
export class CertManager {
  /** Settles once the signal has aborted; never rejects. */
  readonly done: Promise<void>;
  readonly #options: CertManagerOptions;
  readonly #objects: ReturnType<typeof certObjects>;
  #status: CertStatus;
  #sights: Sights = {};
  #pauseMs = GAP_MS;

  constructor(options: CertManagerOptions) {
    const { client, namespace, signal, config } = options;
    this.#options = options;
    this.#objects = certObjects(client, namespace, signal);
    const isOurs = config.mode === "self-signed";
    this.#status = { mode: config.mode, state: isOurs ? STARTING : ELSEWHERE, bundleWrites: 0 };
    this.done = isOurs ? this.#run() : Promise.resolve();
  }

  status(): CertStatus {
    return this.#status;
  }

  async #run(): Promise<void> {
    const { signal, log, now } = this.#options;
    if (signal.aborted) return;
    const reconciler = new Reconciler({
      reconcile: () => this.#turn(),
      retry: {
        backoff: createBackoff(FIRST_RETRY_MS, RECHECK_MS),
        onError: (error) => {
          const text = describeError(error);
          if (signal.aborted) return;
          if (this.#status.lastError?.text !== text) log.error({ error: text }, "certificates: failed, will retry");
          this.#status = { ...this.#status, lastError: { text, at: now() } };
        },
        hold: true,
      },
      pauseMs: () => this.#pauseMs,
    });
    this.#objects.watch(() => reconciler.enqueue(), log);
    reconciler.enqueue();
    await once(signal, "abort");
    await reconciler.stop();
  }

  /** Writes at most once. */
  async #turn(): Promise<ReconcileResult> {
    const { config, names, now, makeKey } = this.#options;
    const { tls, ca, view, facts, bundleError } = await this.#read();
    const overlapMs = config.overlapSeconds * 1000;
    const decision = decide(facts, this.#sights, { wall: now(), steady: steadyNow() }, overlapMs);
    const { write, bundle } = decision;
    this.#sights = decision.sights;
    if (write === "signer") {
      const { cert, key } = await issueAuthority({ now: now(), days: config.caDays }, makeKey);
      await this.#objects.writeSecret(CA_SECRET, { "ca.crt": cert, "ca.key": key }, ca);
    } else if (write === "leaf") {
      const signer = { cert: ca?.data["ca.crt"] ?? "", key: ca?.data["ca.key"] ?? "" };
      const { cert, key } = await issueLeaf(signer, names, { now: now(), days: config.leafDays }, makeKey);
      await this.#objects.writeSecret(TLS_SECRET, { "tls.crt": cert, "tls.key": key, "ca.crt": bundle }, tls);
    } else if (write === "bundle" && view !== undefined) {
      await this.#objects.writeBundle(bundle, view);
    }
    this.#report(decision, facts);
    if (bundleError !== undefined) throw bundleError;
    this.#status = { ...this.#status, lastError: undefined };
    this.#pauseMs = write === undefined ? GAP_MS : write === "bundle" ? BUNDLE_GAP_MS : 0;
    return { requeueAfter: write === undefined ? Math.min(RECHECK_MS, Math.max(overlapMs, 1_000)) : 0 };
  }

  /** The objects, and the facts in them. If there is a `bundleError`, the bundle is unknown. */
  async #read() {
    let view: BundleView | undefined;
    let bundleError: unknown;
    try {
      view = await this.#objects.readBundle();
    } catch (error) {
      bundleError = error;
    }
    const tls = await this.#objects.readSecret(TLS_SECRET);
    const ca = await this.#objects.readSecret(CA_SECRET);
    const signer = pairIn(ca, "ca");
    const entries = (view?.bundles ?? []).map((text) => ({ text, authorities: readableAuthorities(text) }));
    const facts: Facts = {
      signer: signer?.x509.ca ? signer : undefined,
      leaf: leafIn(tls, this.#options.names),
      offered: readableAuthorities(tls?.data["ca.crt"] ?? ""),
      entries: bundleError === undefined ? entries : undefined,
    };
    return { tls, ca, view, facts, bundleError };
  }

  #report({ write, reason }: Decision, { signer, leaf }: Facts): void {
    const { state, bundleWrites } = this.#status;
    if (write !== undefined || state.code !== reason.code) this.#options.log.info({ write, ...reason }, "certificates");
    this.#status = {
      ...this.#status,
      state: reason,
      caNotAfter: signer?.notAfter,
      leafNotAfter: leaf?.notAfter,
      bundleWrites: bundleWrites + (write === "bundle" ? 1 : 0),
    };
  }
}

/** Registers the certificate metrics. Each scrape calls `status`. It is undefined if this replica is not the leader. */
export function registerCertMetrics(registry: MetricsRegistry, status: () => CertStatus | undefined): void {
  registry.gauge(
    "switchback_certificate_expiry_timestamp_seconds",
    "Expiry of the CA and of the current serving certificate, Unix seconds.",
    () => {
      const { caNotAfter: ca, leafNotAfter: serving } = status() ?? {};
      const known = Object.entries({ ca, serving }).filter(([, notAfter]) => notAfter !== undefined);
      return known.map(([certificate, notAfter = 0]) => [{ certificate }, notAfter / 1000]);
    },
  );
  registry.gauge(
    "switchback_certificates_state",
    "1 for the current state of the rotation of certificates, by code.",
    () => {
      const code = status()?.state.code;
      return code === undefined ? [] : [[{ code }, 1]];
    },
  );
  registry.gauge(
    "switchback_certificates_failing",
    "1 if the last attempt to maintain the certificates or the caBundle failed.",
    () => (status()?.lastError === undefined ? 0 : 1),
  );
  registry.counterOf(
    "switchback_cabundle_writes_total",
    "How often this leader wrote the caBundle.",
    () => status()?.bundleWrites ?? 0,
  );
}
