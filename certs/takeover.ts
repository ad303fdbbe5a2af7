import type { Reason } from "../hostmap/types.ts";
import { type Certificate, leadsTo } from "./pem.ts";
import { type CaState, MAX_PREVIOUS, trustedBy } from "./state.ts";

/** What is in use, whoever put it there, and the time (Unix milliseconds). */
interface InUse {
  readonly now: number;
  /** The TLS Secret's chain, leaf first; empty: there is none that loads. */
  readonly chain: readonly Certificate[];
  /** The CAs that came with the leaf (`ca.crt`). */
  readonly offered: readonly Certificate[];
  /** The CAs in the live caBundle. */
  readonly live: readonly Certificate[];
}

/**
 * Takes over from someone else who has kept certificate and caBundle meanwhile: cert-manager, before `certs.mode` was changed
 * back. Whole as our CA Secret is, replicas serve a leaf of another CA, and API servers trust that CA alone. So it becomes one
 * of the `previous`, which stay trusted until a leaf of ours has been on offer for the overlap; and where the leaf on offer is
 * not the signer's, the signer becomes `next`, which signs nothing before it has been in the bundle for the overlap. A change
 * is a `fault` of the state: what was found out has to be written down before anything relies on it.
 */
export function takeOver(ca: CaState, used: InUse): CaState {
  // Nothing of ours is left, or not all of it: `decodeCa` has kept what was in use already.
  if (trustedBy(ca).length === 0 || ca.fault !== undefined) return ca;
  const isAlive = ({ notAfter }: Certificate) => used.now < notAfter;
  const chain = used.chain.slice(0, 1).every(isAlive) ? used.chain : [];
  const found = [...used.live, ...used.offered].filter(isAlive);
  const reason = foreignReason(ca, chain, found, used.live);
  if (reason === undefined) return ca;
  const signer = ca.signer !== undefined && isAlive(ca.signer) ? ca.signer : undefined;
  const isOffered = signer !== undefined && leadsTo(chain, signer);
  const kept = isOffered ? { signer, next: ca.next } : { signer: undefined, next: ca.next ?? signer };
  const replaced = signer === undefined ? [] : [signer];
  // Those that the leaf on offer needs come first, as the number is limited.
  const needed = found.filter((authority) => leadsTo(chain, authority));
  const previous = distinct([...needed, ...replaced, ...ca.previous, ...found], [kept.signer, kept.next]);
  const grown = previous.some(({ id }) => !ca.previous.some((known) => known.id === id));
  // Where an API server has lost the next CA, the wait for it starts over.
  const nextSince = kept.next === ca.next && includesAny(used.live, [ca.next]) ? ca.nextSince : undefined;
  if (kept.signer === ca.signer && !grown && nextSince === ca.nextSince) return ca;
  return { ...kept, nextSince, previous, previousSince: grown ? undefined : ca.previousSince, fault: reason };
}

/** Why something that is in use is not ours, or undefined. */
function foreignReason(
  ca: CaState,
  chain: readonly Certificate[],
  found: readonly Certificate[],
  live: readonly Certificate[],
): Reason | undefined {
  const isOurs = chain.length === 0 || trustedBy(ca).some((authority) => leadsTo(chain, authority));
  // A leaf that none of these CAs is for is trusted by nobody: there is nothing to keep, and ours replaces it at once.
  if (!isOurs && found.some((authority) => leadsTo(chain, authority))) {
    return { code: "leaf-foreign", text: "the certificate on offer is of another CA, which stays trusted meanwhile" };
  }
  if (live.length > 0 && !includesAny(live, [ca.signer, ca.next])) {
    return { code: "bundle-foreign", text: "the API server trusts another CA, which stays trusted meanwhile" };
  }
  return undefined;
}

/** The first few, each once, none of `taken`. */
function distinct(certificates: readonly Certificate[], taken: readonly (Certificate | undefined)[]): Certificate[] {
  const seen = new Set(taken.map((one) => one?.id));
  return certificates.filter(({ id }) => !seen.has(id) && seen.add(id)).slice(0, MAX_PREVIOUS);
}

function includesAny(list: readonly Certificate[], wanted: readonly (Certificate | undefined)[]): boolean {
  return wanted.some((one) => one !== undefined && list.some(({ id }) => id === one.id));
}
