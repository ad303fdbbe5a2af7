import { createSign, generateKeyPair, randomBytes } from "node:crypto";
import { promisify } from "node:util";
import type Forge from "node-forge";
import type { PemPair } from "./pem.ts";
import { BACKDATE_MS } from "./rules.ts";

/** Times are Unix milliseconds; `days` may be a fraction. */
interface Lifetime {
  readonly now: number;
  readonly days: number;
}

const DAY_MS = 86_400_000;
const generate = promisify(generateKeyPair);

/**
 * Generates a private key (PKCS #8) and its public half (SPKI), as PEM text. RSA of 2,048 bits with node:crypto, in its
 * thread pool. Node-forge signs with RSA only. Every API server accepts 2,048 bits, and the keys are replaced long
 * before more would matter.
 */
export function makeRsaKey() {
  return generate("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  });
}

/** Tests pass a function that makes each key only once. */
export type MakeKey = typeof makeRsaKey;

/**
 * Issues a certificate for a new key. Without an `authority`, it signs itself. Node-forge is loaded only here, a few
 * times a year, because it takes 5 MB of memory.
 */
async function issue(
  commonName: string,
  life: Lifetime,
  extensions: object[],
  authority: PemPair | undefined,
  makeKey: MakeKey,
): Promise<PemPair> {
  const [{ default: forge }, key] = await Promise.all([import("node-forge"), makeKey()]);
  const issuer = authority && forge.pki.certificateFromPem(authority.cert);
  const cert = forge.pki.createCertificate();
  cert.publicKey = forge.pki.publicKeyFromPem(key.publicKey);
  // The first byte makes the ASN.1 INTEGER positive and keeps its length (RFC 5280, 4.1.2.2).
  cert.serialNumber = `40${randomBytes(15).toString("hex")}`;
  const end = Math.min(life.now + life.days * DAY_MS, issuer?.validity.notAfter.getTime() ?? Number.POSITIVE_INFINITY);
  // Node-forge drops the milliseconds.
  cert.validity.notBefore = new Date(life.now - BACKDATE_MS);
  cert.validity.notAfter = new Date(end);
  cert.setSubject([{ name: "commonName", value: commonName }]);
  cert.setIssuer((issuer ?? cert).subject.attributes);
  const keyIdentifier = issuer?.generateSubjectKeyIdentifier().getBytes();
  const ofIssuer = keyIdentifier === undefined ? [] : [{ name: "authorityKeyIdentifier", keyIdentifier }];
  cert.setExtensions([...extensions, { name: "subjectKeyIdentifier" }, ...ofIssuer]);
  const signer = {
    // Node-forge calls this method only, when the part to sign is complete. Its own RSA signature is computed in
    // JavaScript, which keeps the thread busy.
    sign: () => {
      const signed = Buffer.from(forge.asn1.toDer(cert.tbsCertificate).getBytes(), "latin1");
      return createSign("sha256")
        .update(signed)
        .sign(authority?.key ?? key.privateKey, "latin1");
    },
  };
  cert.sign(signer as unknown as Forge.pki.rsa.PrivateKey, forge.md.sha256.create());
  // Node-forge writes CRLF. The text is compared and shown, so the CRs are removed.
  return { cert: forge.pki.certificateToPem(cert).replaceAll("\r", ""), key: key.privateKey };
}

/** A new self-signed CA, valid from two days ago. It signs leaves only (path length 0). */
export async function issueAuthority(life: Lifetime, makeKey: MakeKey = makeRsaKey): Promise<PemPair> {
  // Verifiers look up issuers by name, and two CAs are trusted during a rotation, so each CA needs a unique name.
  const name = `switchback-webhook-ca-${randomBytes(4).toString("hex")}`;
  const extensions = [
    { name: "basicConstraints", critical: true, cA: true, pathLenConstraint: 0 },
    { name: "keyUsage", critical: true, keyCertSign: true, cRLSign: true },
  ];
  return await issue(name, life, extensions, undefined, makeKey);
}

/**
 * A serving certificate for `names` (DNS), signed by `authority`. It never outlives its CA.
 * Verifiers read the SANs. The common name is only a label, of at most 64 characters (RFC 5280, A.1).
 */
export async function issueLeaf(
  authority: PemPair,
  names: readonly string[],
  life: Lifetime,
  makeKey: MakeKey = makeRsaKey,
): Promise<PemPair> {
  const extensions = [
    { name: "basicConstraints", critical: true, cA: false },
    { name: "keyUsage", critical: true, digitalSignature: true, keyEncipherment: true },
    { name: "extKeyUsage", serverAuth: true },
    { name: "subjectAltName", altNames: names.map((value) => ({ type: 2, value })) },
  ];
  return await issue("switchback-webhook", life, extensions, authority, makeKey);
}

/** The names that an API server, or a user with curl, may use for a Service. The API server uses the first. */
export function servingNames(service: string, namespace: string, clusterDomain: string): string[] {
  const base = `${service}.${namespace}`;
  return [`${base}.svc`, `${base}.svc.${clusterDomain}`, base, service];
}
