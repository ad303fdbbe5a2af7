import { createPrivateKey, X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import { SwitchbackError } from "#lib/errors/errors.ts";

/** A certificate, or a chain with the leaf first, and its private key, as PEM text. */
export interface PemPair {
  readonly cert: string;
  readonly key: string;
}

/** One certificate, parsed. `id` is its SHA-256 fingerprint; times are Unix milliseconds. */
export interface Certificate {
  readonly id: string;
  readonly pem: string;
  readonly notBefore: number;
  readonly notAfter: number;
  readonly x509: X509Certificate;
}

const BLOCK = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g;

function parseCertificate(pem: string): Certificate {
  const x509 = new X509Certificate(pem);
  const [notBefore, notAfter] = [x509.validFromDate.getTime(), x509.validToDate.getTime()];
  return { id: x509.fingerprint256, pem: `${pem.trim()}\n`, notBefore, notAfter, x509 };
}

/** Every certificate of a PEM text, in order. Throws `pair-invalid` if one does not parse or the text has none. */
export function parseCertificates(text: string): [Certificate, ...Certificate[]] {
  try {
    const [first, ...others] = (text.match(BLOCK) ?? []).map(parseCertificate);
    if (first !== undefined) return [first, ...others];
  } catch (cause) {
    throw new SwitchbackError("pair-invalid", "the certificate does not parse", { cause });
  }
  throw new SwitchbackError("pair-invalid", "the text contains no certificate");
}

/** The CA certificates of a PEM text from any writer. Skips blocks that do not parse, and never throws. */
export function readableAuthorities(text: string): Certificate[] {
  return (text.match(BLOCK) ?? []).flatMap((block) => {
    try {
      const certificate = parseCertificate(block);
      // A bundle's self-issued certificate is trusted, CA or not (Go's crypto/x509).
      return certificate.x509.ca || certificate.x509.subject === certificate.x509.issuer ? [certificate] : [];
    } catch {
      return [];
    }
  });
}

/**
 * The first certificate of a pair that a TLS server can serve: it parses, the key matches, and OpenSSL accepts both.
 * Throws `pair-invalid`. The caller checks the validity period.
 */
export function loadPair(pair: PemPair): Certificate {
  const [first] = parseCertificates(pair.cert);
  try {
    // An empty key would pass the second check. OpenSSL's messages never contain the key.
    createPrivateKey(pair.key);
    createSecureContext({ cert: pair.cert, key: pair.key });
  } catch (cause) {
    throw new SwitchbackError("pair-invalid", "the certificate and the key do not load together", { cause });
  }
  return first;
}

/** Whether `authority` signed `certificate`: issuer name, key identifiers and signature. Ignores times. */
export function isSignedBy(certificate: Certificate, authority: Certificate): boolean {
  return certificate.x509.checkIssued(authority.x509) && certificate.x509.verify(authority.x509.publicKey);
}

/**
 * Whether a client that trusts `authority` accepts the chain (leaf first). It does if `authority` is the leaf itself,
 * or signed it directly or through the intermediates in the chain. Ignores the validity period.
 */
export function chainsTo(chain: readonly Certificate[], authority: Certificate): boolean {
  const [leaf, ...others] = chain;
  if (leaf === undefined) return false;
  if (leaf.id === authority.id || isSignedBy(leaf, authority)) return true;
  const issuer = others.find((each) => isSignedBy(leaf, each));
  return issuer !== undefined && chainsTo([issuer, ...others.filter((each) => each !== issuer)], authority);
}
