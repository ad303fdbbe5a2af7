/**
 * Decides what to write next. A pure function of what was read, of what the leader has seen, and of two clocks.
 *
 * Two things spread slowly and independently: the caBundle to every API server, and the leaf to every webhook
 * replica. Each should arrive within the overlap (`certs.overlapSeconds`). Four rules follow:
 *
 * 1. The signer is missing, broken, not valid or past two thirds of its life: make one. Not while the webhook's
 *    configuration cannot be read, because nobody knows then which CAs the API servers trust.
 * 2. The caBundle is the signer and up to three other CAs that are alive. Write it if it differs.
 * 3. The leaf is missing, broken, not valid, past two thirds, or not of the signer: issue one. While an old leaf of
 *    another CA is trusted, only after the signer has been in the bundle for the overlap.
 * 4. Once a leaf of the signer has been stored for the overlap, the other CAs leave the bundle, and with a new leaf
 *    also its `ca.crt`.
 *
 * Each decision is one write, and everything is read again before the next one. So a crash, a new leader, a deleted
 * object, a restored backup, a foreign or empty bundle and a change of `certs.mode` are ordinary input.
 */
import type { Reason } from "#hostmap/types.ts";
import type { Certificate } from "./pem.ts";

/**
 * How far `notBefore` is backdated. The clocks of two leaders may be wrong by a day in opposite directions, and still
 * each certificate is valid for both leaders and for the API servers.
 */
export const BACKDATE_MS = 49 * 3_600_000;
/** The number of CAs in the bundle besides the signer. */
const MAX_OTHERS = 3;

export type CertFacts = Omit<Certificate, "x509">;

interface LeafFacts extends CertFacts {
  /** Whether it is valid for every name of the webhook's Service. */
  readonly coversNames: boolean;
  /** Whether a client that trusts `authority` accepts the stored chain. Ignores times. */
  readonly chainsTo: (authority: CertFacts) => boolean;
}

/** What was read. A certificate that is missing or broken is undefined. */
export interface Facts {
  readonly signer: CertFacts | undefined;
  readonly leaf: LeafFacts | undefined;
  /** `ca.crt` beside the leaf: the CAs that the bundle had when it was issued. A lost bundle is restored from it. */
  readonly offered: readonly CertFacts[];
  /**
   * The caBundle of each webhook entry. Empty if there is no configuration, so that no API server calls. Undefined if
   * the configuration cannot be read.
   */
  readonly entries: readonly { readonly text: string; readonly authorities: readonly CertFacts[] }[] | undefined;
}

/**
 * Since when a leader sees something, in milliseconds of the monotonic clock. A new leader begins with an empty memory,
 * so its waits start again.
 */
export interface Sights {
  /** The signer. The sights of another one do not count. */
  readonly id?: string | undefined;
  /** Every entry of the bundle has the signer. */
  readonly inBundle?: number | undefined;
  /** The stored leaf is of the signer. */
  readonly ofLeaf?: number | undefined;
}

export interface Decision {
  /** What to write now. Undefined: nothing. */
  readonly write?: "signer" | "bundle" | "leaf" | undefined;
  /** Why it is written, or the state in which nothing is due. */
  readonly reason: Reason;
  /** The desired caBundle, PEM text. */
  readonly bundle: string;
  readonly sights: Sights;
}

/** When a certificate is replaced: after two thirds of its life, counted from when it was issued. */
export function renewAt({ notBefore, notAfter }: CertFacts): number {
  return notAfter - Math.max(0, notAfter - notBefore - BACKDATE_MS) / 3;
}

/** Why a certificate is replaced, as the end of a sentence. Undefined if it is good. */
function faultOf(cert: CertFacts | undefined, now: number): string | undefined {
  if (cert === undefined) return "is missing or broken";
  if (now < cert.notBefore) return "is not valid yet: a clock is wrong";
  if (now >= cert.notAfter) return "has expired";
  return now >= renewAt(cert) ? "is past two thirds of its life" : undefined;
}

function isValid(cert: CertFacts | undefined, now: number): cert is CertFacts {
  return cert !== undefined && cert.notBefore <= now && now < cert.notAfter;
}

/**
 * The CAs of the bundle besides the signer: rule 2. First those whose leaves replicas may still serve: the CA of the
 * stored leaf, and `ca.crt`. Then the others in the order of the bundle. The signer will be the last there, so that a
 * signer that is lost before it signed has no place before those that signed.
 */
function othersToTrust({ signer, leaf, offered, entries = [] }: Facts, now: number): CertFacts[] {
  const known = [...offered, ...entries.flatMap(({ authorities }) => authorities)];
  const ofLeaf = known.filter((authority) => leaf?.chainsTo(authority)).slice(0, 1);
  const alive = [...ofLeaf, ...known].filter(({ id, notAfter }) => now < notAfter && id !== signer?.id);
  return [...new Map(alive.map((authority) => [authority.id, authority])).values()].slice(0, MAX_OTHERS);
}

/** Why the leaf is replaced: rules 3 and 4. */
function leafFault({ leaf, offered }: Facts, signer: CertFacts, isSpread: boolean, now: number): string | undefined {
  const fault = faultOf(leaf, now);
  if (fault !== undefined || leaf === undefined) return fault;
  if (!leaf.coversNames) return "does not have all names of the Service";
  if (!leaf.chainsTo(signer)) return "is not of the current CA";
  // A later leader would put them back into the bundle.
  return isSpread && offered.some(({ id }) => id !== signer.id) ? "has former CAs in ca.crt" : undefined;
}

/** Whether the stored leaf has to stay for now: another CA signed it, and some API server may accept it. */
function mustStay({ signer, leaf, entries }: Facts, others: readonly CertFacts[], now: number): boolean {
  if (leaf === undefined || !leaf.coversNames || !isValid(leaf, now)) return false;
  // A new leaf of the same CA is as trusted as the old one.
  if (signer !== undefined && leaf.chainsTo(signer)) return false;
  return entries === undefined || others.some((authority) => leaf.chainsTo(authority));
}

/** The state in which nothing is due. */
function rest({ entries }: Facts, fault: string | undefined, others: number): Reason {
  if (entries === undefined) {
    return { code: "bundle-unreadable", text: "the webhook configuration cannot be read" };
  }
  if (entries.length === 0) {
    return { code: "bundle-unreadable", text: "there is no webhook configuration: no API server calls the webhook" };
  }
  if (fault !== undefined) return { code: "switching", text: `the leaf ${fault}; the CA spreads before a new leaf` };
  if (others > 0) return { code: "switching", text: "the former CAs stay trusted while the leaf spreads" };
  return { code: "steady", text: "nothing is due" };
}

function look({ signer, leaf, entries }: Facts, last: Sights, now: number): Sights {
  const { inBundle, ofLeaf } = last.id === signer?.id ? last : {};
  const hasSigner = (authorities: readonly CertFacts[]) => authorities.some(({ id }) => id === signer?.id);
  // While the bundle is unknown, the last sight stays.
  const isPublished = entries?.every(({ authorities }) => hasSigner(authorities)) ?? inBundle !== undefined;
  const hasLeaf = signer !== undefined && leaf?.chainsTo(signer) === true;
  return {
    id: signer?.id,
    inBundle: isPublished ? (inBundle ?? now) : undefined,
    ofLeaf: hasLeaf ? (ofLeaf ?? now) : undefined,
  };
}

/**
 * The next write, if any. `wall` is in Unix milliseconds, for the validity of certificates. `steady` is in milliseconds
 * of a monotonic clock, for the waits.
 */
export function decide(facts: Facts, last: Sights, now: { wall: number; steady: number }, overlapMs: number): Decision {
  const { signer, entries } = facts;
  const sights = look(facts, last, now.steady);
  const isOver = (since: number | undefined) => since !== undefined && overlapMs <= now.steady - since;
  const isSpread = isOver(sights.ofLeaf);
  const others = isSpread ? [] : othersToTrust(facts, now.wall);
  const bundle = [...others, ...(signer ? [signer] : [])].map(({ pem }) => pem).join("");
  const write = (what: Decision["write"], reason: Reason): Decision => ({ write: what, reason, bundle, sights });

  const signerFault = faultOf(signer, now.wall);
  const isUsable = isValid(signer, now.wall);
  if (isUsable && entries?.some(({ text }) => text !== bundle)) {
    return write("bundle", { code: "bundle-written", text: "the caBundle does not have the desired CAs" });
  }
  const fault = isUsable ? leafFault(facts, signer, isSpread, now.wall) : undefined;
  const isKnown = entries !== undefined && isOver(sights.inBundle);
  if (isUsable && fault !== undefined && (isKnown || !mustStay(facts, others, now.wall))) {
    return write("leaf", { code: "issued", text: `the leaf ${fault}` });
  }
  // After the others, so that an old signer that goes is in the bundle and has a leaf.
  if (signerFault !== undefined && entries !== undefined) {
    return write("signer", { code: "issued", text: `the CA ${signerFault}` });
  }
  return { reason: rest(facts, fault, others.length), bundle, sights };
}
