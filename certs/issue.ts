import { generateKeyPair, randomBytes } from "node:crypto";
import { promisify } from "node:util";
import forge from "node-forge";
import type { PemPair } from "./pem.ts";
import { BACKDATE_MS } from "./rotation.ts";

/** A fresh private key (PKCS #8) and its public half (SPKI), as PEM text. */
export interface KeyPem {
  readonly privateKey: string;
  readonly publicKey: string;
}

/** Where keys come from; tests pass smaller ones. */
export type MakeKey = () => Promise<KeyPem>;

/** Times are Unix milliseconds; `days` may be a fraction. */
interface Lifetime {
  readonly now: number;
  readonly days: number;
}

const DAY_MS = 86_400_000;
const generate = promisify(generateKeyPair);

/**
 * RSA of 2,048 bits, made by node:crypto in its thread pool. RSA because node-forge signs nothing else; 2,048 because
 * every API server takes it and the keys are replaced long before more would matter.
 */
export const makeRsaKey: MakeKey = () =>
  generate("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  });

/** 16 random bytes; the top bits make the ASN.1 INTEGER positive and never shorter (RFC 5280, 4.1.2.2). */
function serialNumber(): string {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x3f) | 0x40;
  return bytes.toString("hex");
}

/** An unsigned certificate with what both kinds share. Node-forge drops the milliseconds. */
function draft(publicKey: string, commonName: string, validity: { notBefore: number; notAfter: number }) {
  const cert = forge.pki.createCertificate();
  cert.publicKey = forge.pki.publicKeyFromPem(publicKey);
  cert.serialNumber = serialNumber();
  cert.validity.notBefore = new Date(validity.notBefore);
  cert.validity.notAfter = new Date(validity.notAfter);
  cert.setSubject([{ name: "commonName", value: commonName }]);
  return cert;
}

/** Node-forge writes CRLF; the text is compared and shown, so it gets plain line ends. */
function toPem(cert: forge.pki.Certificate): string {
  return forge.pki.certificateToPem(cert).replaceAll("\r", "");
}

/** A new self-signed CA, valid from a few minutes ago. It signs leaves only (path length 0). */
export async function issueAuthority(life: Lifetime, makeKey: MakeKey = makeRsaKey): Promise<PemPair> {
  const key = await makeKey();
  // A name of its own for each CA: verifiers look issuers up by name, and two CAs are trusted during a rotation.
  const name = `switchback-webhook-ca-${randomBytes(4).toString("hex")}`;
  const cert = draft(key.publicKey, name, {
    notBefore: life.now - BACKDATE_MS,
    notAfter: life.now + life.days * DAY_MS,
  });
  cert.setIssuer(cert.subject.attributes);
  cert.setExtensions([
    { name: "basicConstraints", critical: true, cA: true, pathLenConstraint: 0 },
    { name: "keyUsage", critical: true, keyCertSign: true, cRLSign: true },
    { name: "subjectKeyIdentifier" },
  ]);
  cert.sign(forge.pki.privateKeyFromPem(key.privateKey), forge.md.sha256.create());
  return { cert: toPem(cert), key: key.privateKey };
}

/**
 * A serving certificate for `names` (DNS), signed by `authority`. It never outlives its CA.
 * The common name is only a label, as verifiers read the SANs; it must stay within 64 characters (RFC 5280, A.1).
 */
export async function issueLeaf(
  authority: PemPair,
  names: readonly string[],
  life: Lifetime,
  makeKey: MakeKey = makeRsaKey,
): Promise<PemPair> {
  const key = await makeKey();
  const issuer = forge.pki.certificateFromPem(authority.cert);
  const cert = draft(key.publicKey, "switchback-webhook", {
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
  cert.sign(forge.pki.privateKeyFromPem(authority.key), forge.md.sha256.create());
  return { cert: toPem(cert), key: key.privateKey };
}

/** The names by which an API server, or a person with curl, may call a Service. The API server uses the first. */
export function servingNames(service: string, namespace: string, clusterDomain: string): string[] {
  const base = `${service}.${namespace}`;
  return [`${base}.svc`, `${base}.svc.${clusterDomain}`, base, service];
}
