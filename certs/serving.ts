import type { Reason } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { loadPair, type PemPair } from "./pem.ts";

/** The source of a webhook replica's certificate: see `serving-secret.ts` and `serving-files.ts`. */
export interface ServingSource {
  /** Calls `found` with the pair, or with why there is none, at the start and whenever that may have changed. */
  start(found: (offer: PemPair | Reason) => void): { stop(): Promise<void> };
}

/** For `/readyz`, `/status` and the metrics. */
export interface ServingStatus {
  /** SHA-256 fingerprint of the served certificate, or undefined if there is none yet and the webhook cannot serve. */
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

interface Held {
  readonly pair: PemPair;
  readonly id: string;
  readonly notAfter: number;
}

/**
 * Follows a source and passes each usable pair to `onPair` (`server.setSecureContext`, or the first `listen`). A pair is
 * rejected if it does not load, if its key does not match, or if `onPair` throws: the old pair stays in use, and the status
 * and one warning report why. A source without a pair removes nothing.
 *
 * This machine's clock may be wrong: an expired pair is rejected only while the pair in use has not expired, and a pair
 * that is not valid yet is accepted. The API server decides whether it trusts the pair.
 */
export function watchServingCertificate(
  source: ServingSource,
  onPair: (pair: PemPair) => void,
  { now, log }: { readonly now: () => number; readonly log: Logger },
): ServingWatch {
  let held: Held | undefined;
  let problem: Reason | undefined;
  const report = (reason: Reason | undefined) => {
    if (reason !== undefined && reason.text !== problem?.text) {
      log.warn({ ...reason, served: held?.id }, "serving certificate: there is a problem");
    }
    problem = reason;
  };
  const found = (offer: PemPair | Reason) => {
    if ("code" in offer) return report(offer);
    if (held !== undefined && held.pair.cert === offer.cert && held.pair.key === offer.key) return report(undefined);
    const judged = judge(offer, held, now());
    if (judged.refused !== undefined) return report(judged.refused);
    try {
      onPair(offer);
    } catch (error) {
      return report({
        code: "pair-not-taken",
        text: `the server did not accept the new pair: ${describeError(error)}`,
      });
    }
    held = judged.held;
    report(judged.warning);
    log.info({ fingerprint: held.id, notAfter: new Date(held.notAfter).toISOString() }, "serving certificate: loaded");
  };
  const running = source.start(found);
  return {
    status: () => ({
      fingerprint: held?.id,
      notAfter: held?.notAfter,
      problem: problem ?? (held === undefined ? NOTHING_YET : expiry(held.notAfter, now())),
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

type Judgement =
  | { readonly refused: Reason }
  | { readonly refused?: undefined; readonly held: Held; readonly warning: Reason | undefined };

function judge(pair: PemPair, held: Held | undefined, now: number): Judgement {
  try {
    const { id, notBefore, notAfter } = loadPair(pair);
    const expired = expiry(notAfter, now);
    if (expired && held && now < held.notAfter) return { refused: expired };
    const early = {
      code: "pair-not-yet-valid",
      text: `the serving certificate is not valid before ${new Date(notBefore).toISOString()}`,
    };
    return { held: { pair, id, notAfter }, warning: expired ?? (now < notBefore ? early : undefined) };
  } catch (error) {
    return { refused: { code: "pair-invalid", text: `the pair does not load: ${describeError(error)}` } };
  }
}
