import type { Reason } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { type Certificate, loadPair, type PemPair } from "./pem.ts";

/** The source of a webhook replica's certificate: see `serving-sources.ts`. */
export interface ServingSource {
  /** Calls `found` with the pair, or with the reason why it is missing, at the start and after each possible change. */
  start(found: (offer: PemPair | Reason) => void): { stop(): Promise<void> };
}

/** For `/readyz`, `/status` and the metrics. */
export interface ServingStatus {
  /**
   * Expiry of the served certificate, Unix milliseconds. Undefined while the webhook has no certificate and cannot
   * serve.
   */
  readonly notAfter: number | undefined;
  /** What is wrong with the source's latest pair, or with the served one. */
  readonly problem: Reason | undefined;
}

export interface ServingWatch {
  status(): ServingStatus;
  stop(): Promise<void>;
}

const NOTHING_YET: Reason = { code: "pair-missing", text: "no serving certificate has been found yet" };

function timeProblem({ notBefore, notAfter }: Certificate, now: number): Reason | undefined {
  if (notBefore <= now && now < notAfter) return undefined;
  const [from, to] = [notBefore, notAfter].map((time) => new Date(time).toISOString());
  return { code: "pair-not-current", text: `the serving certificate is valid from ${from} to ${to}` };
}

/**
 * Follows a source and passes each usable pair to `onPair` (`server.setSecureContext`, or the first `listen`). A pair
 * is rejected if it does not load, if its key does not match, or if `onPair` throws. Then the old pair stays in use,
 * and the status and one warning report why. If the source loses its pair, the old one stays in use.
 *
 * This machine's clock may be wrong. So an expired pair is rejected only if the pair in use has not expired, and a pair
 * that is not valid yet is accepted. The API server decides whether it trusts the pair.
 */
export function watchServingCertificate(
  source: ServingSource,
  onPair: (pair: PemPair) => void,
  { now, log }: { readonly now: () => number; readonly log: Logger },
): ServingWatch {
  let served: { readonly pair: PemPair; readonly leaf: Certificate } | undefined;
  let problem: Reason | undefined;
  const take = (pair: PemPair): Reason | undefined => {
    if (served?.pair.cert === pair.cert && served.pair.key === pair.key) return undefined;
    try {
      const leaf = loadPair(pair);
      const outdated = timeProblem(leaf, now());
      if (served !== undefined && leaf.notAfter <= now() && now() < served.leaf.notAfter) return outdated;
      onPair(pair);
      served = { pair, leaf };
      log.info({ fingerprint: leaf.id, notAfter: leaf.x509.validTo }, "serving certificate: loaded");
      return outdated;
    } catch (error) {
      return { code: "pair-invalid", text: `the pair cannot be used: ${describeError(error)}` };
    }
  };
  const running = source.start((offer) => {
    const found = "code" in offer ? offer : take(offer);
    if (found !== undefined && found.text !== problem?.text) {
      log.warn({ ...found, served: served?.leaf.id }, "serving certificate: missing or rejected");
    }
    problem = found;
  });
  return {
    status: () => ({
      notAfter: served?.leaf.notAfter,
      problem: problem ?? (served === undefined ? NOTHING_YET : timeProblem(served.leaf, now())),
    }),
    stop: () => running.stop(),
  };
}
