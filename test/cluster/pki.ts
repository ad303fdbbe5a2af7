import { generateKeyPairSync } from "node:crypto";
import forge from "node-forge";

/** A private key and its certificate, both PEM. */
export interface KeyPair {
  key: string;
  cert: string;
}

/** A certificate authority of a test cluster. */
export interface TestCa extends KeyPair {
  /** A serving certificate for DNS names and IPs; the first name is its subject. */
  serving(names: string[]): KeyPair;
  /** A client certificate: to Kubernetes, the common name is the user and each organization a group. */
  client(user: string, groups: string[]): KeyPair;
}

const DAY_MS = 86_400_000;
const IP = /^[\d.]+$|:/;

/**
 * A CA that is valid for a day, like everything that it signs. Its keys are RSA, because node-forge can sign with
 * nothing else.
 */
export function createTestCa(commonName: string): TestCa {
  const keys = rsaKeys();
  const subject = [{ name: "commonName", value: commonName }];
  const sign = (attributes: forge.pki.CertificateField[], leaf: Keys, extensions: object[]): KeyPair => {
    const cert = forge.pki.createCertificate();
    cert.publicKey = leaf.publicKey;
    // The first byte keeps the serial number positive and its encoding the shortest, as X.509 requires.
    cert.serialNumber = `40${forge.util.bytesToHex(forge.random.getBytesSync(15))}`;
    cert.validity.notBefore = new Date(Date.now() - 60_000);
    cert.validity.notAfter = new Date(Date.now() + DAY_MS);
    cert.setSubject(attributes);
    cert.setIssuer(subject);
    cert.setExtensions(extensions);
    cert.sign(keys.privateKey, forge.md.sha256.create());
    return { key: leaf.pem, cert: forge.pki.certificateToPem(cert) };
  };
  const authority = sign(subject, keys, [
    { name: "basicConstraints", cA: true, critical: true },
    { name: "keyUsage", keyCertSign: true, cRLSign: true, critical: true },
    { name: "subjectKeyIdentifier" },
  ]);
  return {
    ...authority,
    serving: (names) =>
      sign([{ name: "commonName", value: names[0] ?? "" }], rsaKeys(), [
        { name: "extKeyUsage", serverAuth: true },
        { name: "subjectAltName", altNames: names.map(altName) },
      ]),
    client: (user, groups) =>
      sign(
        [{ name: "commonName", value: user }, ...groups.map((value) => ({ name: "organizationName", value }))],
        rsaKeys(),
        [{ name: "extKeyUsage", clientAuth: true }],
      ),
  };
}

function altName(name: string): object {
  return IP.test(name) ? { type: 7, ip: name } : { type: 2, value: name };
}

interface Keys {
  pem: string;
  publicKey: forge.pki.PublicKey;
  privateKey: forge.pki.rsa.PrivateKey;
}

/** OpenSSL generates the key, because node-forge's own search for primes takes seconds. */
function rsaKeys(): Keys {
  const { privateKey: pem } = generateKeyPairSync("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs1", format: "pem" },
  });
  const privateKey = forge.pki.privateKeyFromPem(pem);
  return { pem, privateKey, publicKey: forge.pki.setRsaPublicKey(privateKey.n, privateKey.e) };
}
