import type { Reason } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import { type Certificate, chainsTo, loadPair, parseCertificates, readableAuthorities } from "./pem.ts";
import type { LeafFacts } from "./rotation.ts";
import type { SecretContent } from "./secret-store.ts";

/** A CA that can sign. `key` is PEM text and must never appear in a log or an error. */
export interface Authority extends Certificate {
  readonly key: string;
}

/** The content of the CA Secret, parsed. Times are Unix milliseconds. */
export interface CaState {
  readonly signer: Authority | undefined;
  readonly next: Authority | undefined;
  readonly nextSince: number | undefined;
  readonly previous: readonly Certificate[];
  readonly previousSince: number | undefined;
  /** What is missing or broken, if anything. */
  readonly fault: Reason | undefined;
}

/** Enough for any rotation. Bounds the bundle if the CA Secret is lost repeatedly. */
const MAX_PREVIOUS = 6;

type Data = Readonly<Record<string, string>>;

/** An authority of the Secret: intact, absent or broken. A broken one has its certificate, if that parses. */
function decodeAuthority(data: Data, name: "ca" | "next") {
  const cert = data[`${name}.crt`];
  const key = data[`${name}.key`];
  if (cert === undefined && key === undefined) return {};
  try {
    const found = loadPair({ cert: cert ?? "", key: key ?? "" });
    if (!found.x509.ca) throw new Error("the certificate is not a CA certificate");
    return { authority: { ...found, key: key ?? "" } };
  } catch (error) {
    const fault = { code: `${name}-broken`, text: `${name}.crt and ${name}.key do not load: ${describeError(error)}` };
    return { fault, rest: readableAuthorities(cert ?? "") };
  }
}

function decodePrevious(data: Data): { certificates: Certificate[]; fault?: Reason } {
  const text = data["previous.crt"];
  if (text === undefined) return { certificates: [] };
  try {
    return { certificates: parseCertificates(text) };
  } catch (error) {
    const fault = { code: "previous-broken", text: `previous.crt does not load: ${describeError(error)}` };
    return { certificates: readableAuthorities(text), fault };
  }
}

/** An unreadable time is ignored: the wait starts again. */
function decodeTime(text: string | undefined): number | undefined {
  const time = Date.parse(text ?? "");
  return Number.isNaN(time) ? undefined : time;
}

/** The first `MAX_PREVIOUS` certificates, without duplicates and without those in `taken`. */
export function firstDistinct(
  certificates: readonly Certificate[],
  taken: readonly (Certificate | undefined)[],
): Certificate[] {
  const seen = new Set(taken.map((cert) => cert?.id));
  return certificates.filter(({ id }) => !seen.has(id) && seen.add(id)).slice(0, MAX_PREVIOUS);
}

function newestFirst(a: Certificate, b: Certificate): number {
  return b.notBefore - a.notBefore || (a.id < b.id ? -1 : 1);
}

function lost(secret: SecretContent | undefined): Reason {
  return secret === undefined
    ? { code: "ca-secret-lost", text: "the CA Secret is missing, and its key is lost" }
    : { code: "ca-secret-empty", text: "the CA Secret has no CA" };
}

/**
 * Reads the CA Secret. If it is absent or broken, the recently trusted CAs must be inferred from `witnesses`: the CAs
 * in the TLS Secret and in the live caBundle. They become `previous`, so that leaves that are still served verify. If
 * the Secret is intact, this function ignores witnesses; see `takeOver`.
 */
export function decodeCa(secret: SecretContent | undefined, witnesses: readonly Certificate[]): CaState {
  const data = secret?.data ?? {};
  const signer = decodeAuthority(data, "ca");
  const next = decodeAuthority(data, "next");
  const previous = decodePrevious(data);
  const empty = signer.authority === undefined && next.authority === undefined && witnesses.length > 0;
  const fault = signer.fault ?? next.fault ?? previous.fault ?? (empty ? lost(secret) : undefined);
  // A next CA has signed nothing yet. If only that one is broken, there is nothing to keep.
  const whole = signer.authority !== undefined && previous.fault === undefined;
  const kept = fault === undefined || whole ? [] : [...(signer.rest ?? []), ...(next.rest ?? []), ...witnesses];
  return {
    signer: signer.authority,
    next: next.authority,
    nextSince: decodeTime(data["next.since"]),
    previous: firstDistinct([...previous.certificates, ...kept].sort(newestFirst), [signer.authority, next.authority]),
    previousSince: kept.length === 0 ? decodeTime(data["previous.since"]) : undefined,
    fault,
  };
}

/** The data of the CA Secret for a state; `decodeCa` reads it back. */
export function encodeCa(state: Omit<CaState, "fault">): Record<string, string> {
  const { signer, next, nextSince, previous, previousSince } = state;
  return {
    ...(signer && { "ca.crt": signer.pem, "ca.key": signer.key }),
    ...(next && { "next.crt": next.pem, "next.key": next.key }),
    ...(next && nextSince !== undefined && { "next.since": new Date(nextSince).toISOString() }),
    ...(previous.length > 0 && { "previous.crt": previous.map(({ pem }) => pem).join("") }),
    ...(previous.length > 0 &&
      previousSince !== undefined && { "previous.since": new Date(previousSince).toISOString() }),
  };
}

/** The CAs to trust, newest first. In this order, the text stays the same when the next CA becomes the signer. */
export function trustedBy(state: Pick<CaState, "signer" | "next" | "previous">): Certificate[] {
  return [state.next, state.signer, ...state.previous].filter((cert) => cert !== undefined);
}

/** The chain of the TLS Secret, leaf first. Empty if no replica could serve it. */
export function servedChain(secret: SecretContent | undefined): Certificate[] {
  const cert = secret?.data["tls.crt"] ?? "";
  try {
    loadPair({ cert, key: secret?.data["tls.key"] ?? "" });
    return parseCertificates(cert);
  } catch {
    return [];
  }
}

/** Reads the TLS Secret as the planner needs it. */
export function decodeLeaf(
  secret: SecretContent | undefined,
  trusted: readonly Certificate[],
  names: readonly string[],
): { leaf: LeafFacts | undefined; leafFault: Reason | undefined } {
  if (secret === undefined) return { leaf: undefined, leafFault: undefined };
  try {
    const chain = parseCertificates(secret.data["tls.crt"] ?? "");
    const leaf = loadPair({ cert: secret.data["tls.crt"] ?? "", key: secret.data["tls.key"] ?? "" });
    const facts = {
      id: leaf.id,
      notBefore: leaf.notBefore,
      notAfter: leaf.notAfter,
      signedBy: trusted.find((authority) => chainsTo(chain, authority))?.id,
      coversNames: names.every((name) => leaf.x509.checkHost(name, { subject: "never" }) !== undefined),
    };
    return { leaf: facts, leafFault: undefined };
  } catch (error) {
    const text = `tls.crt and tls.key do not load: ${describeError(error)}`;
    return { leaf: undefined, leafFault: { code: "leaf-broken", text } };
  }
}
