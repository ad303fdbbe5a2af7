import { createSign, generateKeyPair, randomBytes } from "node:crypto";
import { promisify } from "node:util";
import type Forge from "node-forge";
import type { PemPair } from "./pem.ts";
import { BACKDATE_MS } from "./rotation.ts";

/** A fresh private key (PKCS #8) and its public half (SPKI), as PEM text. */
export interface KeyPem {
  readonly privateKey: string;
  readonly publicKey: string;
}

/** Generates a key; tests pass a function with smaller keys. */
export type MakeKey = () => Promise<KeyPem>;

/** Times are Unix milliseconds; `days` may be a fraction. */
interface Lifetime {
  readonly now: number;
  readonly days: number;
}

const DAY_MS = 86_400_000;
const generate = promisify(generateKeyPair);

/**
 * Generates RSA keys of 2,048 bits with node:crypto, in its thread pool. Node-forge signs with RSA only.
 * Every API server accepts 2,048 bits, and the keys are replaced long before more would matter.
 */
export const makeRsaKey: MakeKey = () =>
  generate("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  });

/** 16 random bytes. The top bits make the ASN.1 INTEGER positive and keep its length (RFC 5280, 4.1.2.2). */
function serialNumber(): string {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x3f) | 0x40;
  return bytes.toString("hex");
}

/** Loaded only to issue a certificate, a few times a year, because it takes 5 MB of memory. */
async function nodeForge(): Promise<typeof Forge> {
  return (await import("node-forge")).default;
}

/** An unsigned certificate with the fields that both kinds share. Node-forge drops the milliseconds. */
function draft(
  forge: typeof Forge,
  publicKey: string,
  commonName: string,
  validity: { notBefore: number; notAfter: number },
) {
  const cert = forge.pki.createCertificate();
  cert.publicKey = forge.pki.publicKeyFromPem(publicKey);
  cert.serialNumber = serialNumber();
  cert.validity.notBefore = new Date(validity.notBefore);
  cert.validity.notAfter = new Date(validity.notAfter);
  cert.setSubject([{ name: "commonName", value: commonName }]);
  return cert;
}

/** Signs with node:crypto. Node-forge computes an RSA signature in JavaScript, which keeps the thread busy. */
function sign(forge: typeof Forge, cert: Forge.pki.Certificate, privateKey: string): void {
  const signer = {
    // Node-forge calls this when the part to sign is complete.
    sign: () => {
      const signed = Buffer.from(forge.asn1.toDer(cert.tbsCertificate).getBytes(), "latin1");
      return createSign("sha256").update(signed).sign(privateKey, "latin1");
    },
  };
  // Node-forge calls no other method of a key.
  cert.sign(signer as unknown as Forge.pki.rsa.PrivateKey, forge.md.sha256.create());
}

/** Node-forge writes CRLF. The text is compared and shown, so the CRs are removed. */
function toPem(forge: typeof Forge, cert: Forge.pki.Certificate): string {
  return forge.pki.certificateToPem(cert).replaceAll("\r", "");
}

/** A new self-signed CA, valid from a few minutes ago. It signs leaves only (path length 0). */
export async function issueAuthority(life: Lifetime, makeKey: MakeKey = makeRsaKey): Promise<PemPair> {
  const [forge, key] = await Promise.all([nodeForge(), makeKey()]);
  // Verifiers look up issuers by name, and two CAs are trusted during a rotation, so each CA needs a unique name.
  const name = `switchback-webhook-ca-${randomBytes(4).toString("hex")}`;
  const cert = draft(forge, key.publicKey, name, {
    notBefore: life.now - BACKDATE_MS,
    notAfter: life.now + life.days * DAY_MS,
  });
  cert.setIssuer(cert.subject.attributes);
  cert.setExtensions([
    { name: "basicConstraints", critical: true, cA: true, pathLenConstraint: 0 },
    { name: "keyUsage", critical: true, keyCertSign: true, cRLSign: true },
    { name: "subjectKeyIdentifier" },
  ]);
  sign(forge, cert, key.privateKey);
  return { cert: toPem(forge, cert), key: key.privateKey };
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
  const [forge, key] = await Promise.all([nodeForge(), makeKey()]);
  const issuer = forge.pki.certificateFromPem(authority.cert);
  const cert = draft(forge, key.publicKey, "switchback-webhook", {
    notBefore: life.now - BACKDATE_MS,
    notAfter: Math.min(life.now + life.days * DAY_MS, issuer.validity.notAfter.getTime()),
  });
  cert.setIssuer(issuer.subject.attributes);
  cert.setExtensions([
    { name: "basicConstraints", critical: true, cA: false },
    { name: "keyUsage", critical: true, digitalSignature: true, keyEncipherment: true },
    { name: "extKeyUsage", serverAuth: true },
    { name: "subjectAltName", altNames: names.map((value) => ({ type: 2, value })) },
    { name: "subjectKeyIdentifier" },
    { name: "authorityKeyIdentifier", keyIdentifier: issuer.generateSubjectKeyIdentifier().getBytes() },
  ]);
  sign(forge, cert, authority.key);
  return { cert: toPem(forge, cert), key: key.privateKey };
}

/** The names that an API server, or a user with curl, may use for a Service. The API server uses the first. */
export function servingNames(service: string, namespace: string, clusterDomain: string): string[] {
  const base = `${service}.${namespace}`;
  return [`${base}.svc`, `${base}.svc.${clusterDomain}`, base, service];
}
