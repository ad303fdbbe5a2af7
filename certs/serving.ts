import type { Reason } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { loadPair, type PemPair } from "./pem.ts";

/** The source of a webhook replica's certificate: see `serving-secret.ts` and `serving-files.ts`. */
export interface ServingSource {
  /** Calls `found` with the pair, or with the reason why it is missing, at the start and after each possible change. */
  start(found: (offer: PemPair | Reason) => void): { stop(): Promise<void> };
}

/** For `/readyz`, `/status` and the metrics. */
export interface ServingStatus {
  /** SHA-256 fingerprint of the served certificate. Undefined while the webhook has no certificate and cannot serve. */
  readonly fingerprint: string | undefined;
  /** Its expiry, Unix milliseconds. */
  readonly notAfter: number | undefined;
  /** What is wrong with the source's latest pair, or with the served one. */
  readonly problem: Reason | undefined;
}

export interface ServingWatch {
  status(): ServingStatus;
  stop(): Promise<void>;
}

interface ServedPair {
  readonly pair: PemPair;
  readonly id: string;
  readonly notAfter: number;
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
  let served: ServedPair | undefined;
  let problem: Reason | undefined;
  const report = (reason: Reason | undefined) => {
    if (reason !== undefined && reason.text !== problem?.text) {
      log.warn({ ...reason, served: served?.id }, "serving certificate: missing or rejected");
    }
    problem = reason;
  };
  const found = (offer: PemPair | Reason) => {
    if ("code" in offer) return report(offer);
    if (served !== undefined && served.pair.cert === offer.cert && served.pair.key === offer.key)
      return report(undefined);
    const decision = decide(offer, served, now());
    if (decision.refused !== undefined) return report(decision.refused);
    try {
      onPair(offer);
    } catch (error) {
      return report({
        code: "pair-not-taken",
        text: `the server did not accept the new pair: ${describeError(error)}`,
      });
    }
    served = decision.accepted;
    report(decision.warning);
    const { id: fingerprint, notAfter } = served;
    log.info({ fingerprint, notAfter: new Date(notAfter).toISOString() }, "serving certificate: loaded");
  };
  const running = source.start(found);
  return {
    status: () => ({
      fingerprint: served?.id,
      notAfter: served?.notAfter,
      problem: problem ?? (served === undefined ? NOTHING_YET : expiry(served.notAfter, now())),
    }),
    stop: () => running.stop(),
  };
}

const NOTHING_YET: Reason = { code: "pair-missing", text: "no serving certificate has been found yet" };

function expiry(notAfter: number, now: number): Reason | undefined {
  return now < notAfter
    ? undefined
    : { code: "pair-expired", text: `the serving certificate expired at ${new Date(notAfter).toISOString()}` };
}

type Decision =
  | { readonly refused: Reason }
  | { readonly refused?: undefined; readonly accepted: ServedPair; readonly warning: Reason | undefined };

function decide(pair: PemPair, served: ServedPair | undefined, now: number): Decision {
  try {
    const { id, notBefore, notAfter } = loadPair(pair);
    const expired = expiry(notAfter, now);
    if (expired && served && now < served.notAfter) return { refused: expired };
    const early = {
      code: "pair-not-yet-valid",
      text: `the serving certificate is not valid before ${new Date(notBefore).toISOString()}`,
    };
    return { accepted: { pair, id, notAfter }, warning: expired ?? (now < notBefore ? early : undefined) };
  } catch (error) {
    return { refused: { code: "pair-invalid", text: `the pair does not load: ${describeError(error)}` } };
  }
}
