import type { Reason } from "#hostmap/types.ts";
import { type Certificate, chainsTo } from "./pem.ts";
import { type CaState, firstDistinct, trustedBy } from "./state.ts";

/** The certificates in use, from any manager, and the time (Unix milliseconds). */
interface InUse {
  readonly now: number;
  /** The TLS Secret's chain, leaf first, or empty if none loads. */
  readonly chain: readonly Certificate[];
  /** The CAs that came with the leaf (`ca.crt`). */
  readonly offered: readonly Certificate[];
  /** The CAs in the live caBundle. */
  readonly live: readonly Certificate[];
}

/**
 * Takes over from another manager of certificate and caBundle, such as cert-manager before `certs.mode` was changed
 * back. Switchback's CA Secret is intact. But replicas serve a leaf of another CA, and API servers trust only that CA.
 *
 * That CA becomes one of the `previous`. These stay trusted until a leaf of Switchback's CA has been available for the
 * overlap. If the signer did not sign the current leaf, it becomes `next`, and signs only after it has been in the
 * bundle for the overlap. A change is a `fault` of the state: it must be stored before any step relies on it.
 */
export function takeOver(ca: CaState, used: InUse): CaState {
  // The CA Secret is lost or broken: `decodeCa` has already kept the CAs in use.
  if (trustedBy(ca).length === 0 || ca.fault !== undefined) return ca;
  const isAlive = ({ notAfter }: Certificate) => used.now < notAfter;
  const chain = used.chain.slice(0, 1).every(isAlive) ? used.chain : [];
  const found = [...used.live, ...used.offered].filter(isAlive);
  const reason = foreignReason(ca, chain, found, used.live);
  if (reason === undefined) return restartWaits(ca, chain, used.live);
  const signer = ca.signer !== undefined && isAlive(ca.signer) ? ca.signer : undefined;
  const isOffered = signer !== undefined && chainsTo(chain, signer);
  const kept = isOffered ? { signer, next: ca.next } : { signer: undefined, next: ca.next ?? signer };
  const replaced = signer === undefined ? [] : [signer];
  // The number is limited, so the CAs that the current leaf needs come first.
  const needed = found.filter((authority) => chainsTo(chain, authority));
  const previous = firstDistinct([...needed, ...replaced, ...ca.previous, ...found], [kept.signer, kept.next]);
  const grown = previous.some(({ id }) => !ca.previous.some((known) => known.id === id));
  // If an API server has lost the next CA, the wait for the next CA starts again.
  const nextSince = kept.next === ca.next && includesAny(used.live, [ca.next]) ? ca.nextSince : undefined;
  if (kept.signer === ca.signer && !grown && nextSince === ca.nextSince) return ca;
  return { ...kept, nextSince, previous, previousSince: grown ? undefined : ca.previousSince, fault: reason };
}

/**
 * Somebody restored an older bundle or leaf (a backup, a late cainjector). Some API server or replica has lost the
 * newer one, so the wait for the newer one starts again. The property test found the case of an old bundle that lacks
 * the next CA and is restored during the wait for this CA.
 */
function restartWaits(ca: CaState, chain: readonly Certificate[], live: readonly Certificate[]): CaState {
  if (ca.nextSince !== undefined && live.length > 0 && !includesAny(live, [ca.next])) {
    const text = "the API server lost the next CA: its wait starts again";
    return { ...ca, nextSince: undefined, fault: { code: "bundle-put-back", text } };
  }
  const { signer } = ca;
  if (ca.previousSince !== undefined && signer !== undefined && chain.length > 0 && !chainsTo(chain, signer)) {
    const text = "somebody restored the certificate of an old CA: the wait for the new one starts again";
    return { ...ca, previousSince: undefined, fault: { code: "leaf-put-back", text } };
  }
  return ca;
}

/** Why a certificate in use is another manager's, or undefined. */
function foreignReason(
  ca: CaState,
  chain: readonly Certificate[],
  found: readonly Certificate[],
  live: readonly Certificate[],
): Reason | undefined {
  const isOurs = chain.length === 0 || trustedBy(ca).some((authority) => chainsTo(chain, authority));
  // No client trusts a leaf that none of these CAs signed. A new leaf replaces it at once.
  if (!isOurs && found.some((authority) => chainsTo(chain, authority))) {
    return { code: "leaf-foreign", text: "another CA signed the current certificate, and stays trusted for now" };
  }
  if (live.length > 0 && !includesAny(live, [ca.signer, ca.next])) {
    return { code: "bundle-foreign", text: "the API server trusts another CA, which stays trusted for now" };
  }
  return undefined;
}

function includesAny(list: readonly Certificate[], wanted: readonly (Certificate | undefined)[]): boolean {
  return wanted.some((one) => one !== undefined && list.some(({ id }) => id === one.id));
}
