import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { createServer, request } from "node:https";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import forge from "node-forge";
import { pooledKey } from "#test/fakes/keys.ts";
import { fc } from "#test/property.ts";
import { issueAuthority, issueLeaf, makeRsaKey, servingNames } from "./issue.ts";
import { isSignedBy, type PemPair, parseCertificates } from "./pem.ts";

const NAMES = servingNames("switchback-webhook", "switchback-system", "cluster.local");
const DAY = 86_400_000;
const now = Date.now();

/** Sends one GET over TLS, as an API server would; returns the response, or the code of the failure. */
async function call(leaf: PemPair, ca: string, servername: string): Promise<string> {
  const server = createServer(leaf, (_, response) => response.end("ok"));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  try {
    return await new Promise((resolve) => {
      const sent = request({ host: "127.0.0.1", port, servername, ca, agent: false }, (response) => {
        response.setEncoding("utf8").on("data", resolve);
      });
      sent.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
      sent.end();
    });
  } finally {
    server.close();
  }
}

test("a handshake succeeds for every name of the Service, and for no other name or CA", async () => {
  const ca = await issueAuthority({ now, days: 10 });
  const other = await issueAuthority({ now, days: 10 });
  const leaf = await issueLeaf(ca, NAMES, { now, days: 1 });
  for (const name of NAMES) assert.equal(await call(leaf, ca.cert, name), "ok", name);
  assert.equal(await call(leaf, other.cert + ca.cert, NAMES[0] ?? ""), "ok", "a bundle of two");
  assert.equal(await call(leaf, ca.cert, "switchback-webhook.other.svc"), "ERR_TLS_CERT_ALTNAME_INVALID");
  assert.equal(await call(leaf, other.cert, NAMES[0] ?? ""), "UNABLE_TO_VERIFY_LEAF_SIGNATURE");
});

test("the chain verifies, and the leaf is valid for a TLS server only", async () => {
  const ca = await issueAuthority({ now, days: 10 }, pooledKey);
  const leaf = await issueLeaf(ca, NAMES, { now, days: 1 }, pooledKey);
  const store = forge.pki.createCaStore([ca.cert]);
  assert.ok(forge.pki.verifyCertificateChain(store, [forge.pki.certificateFromPem(leaf.cert)]));
  const extensions = new Map(forge.pki.certificateFromPem(leaf.cert).extensions.map((item) => [item.name, item]));
  assert.deepEqual([...extensions.keys()].toSorted(), [
    "authorityKeyIdentifier",
    "basicConstraints",
    "extKeyUsage",
    "keyUsage",
    "subjectAltName",
    "subjectKeyIdentifier",
  ]);
  assert.equal(extensions.get("extKeyUsage").serverAuth, true);
  assert.ok(!extensions.get("extKeyUsage").clientAuth);
  assert.equal(extensions.get("keyUsage").keyCertSign, false);
  assert.ok(extensions.get("basicConstraints").critical && extensions.get("keyUsage").critical);
});

test("the CA can sign leaves only, and has a unique name", async () => {
  const [one, two] = [
    await issueAuthority({ now, days: 1 }, pooledKey),
    await issueAuthority({ now, days: 1 }, pooledKey),
  ];
  const x509 = new X509Certificate(one.cert);
  assert.equal(x509.ca, true);
  assert.ok(x509.verify(x509.publicKey));
  assert.notEqual(x509.subject, new X509Certificate(two.cert).subject);
  const parsed = forge.pki.certificateFromPem(one.cert);
  assert.equal((parsed.getExtension("basicConstraints") as { pathLenConstraint?: number }).pathLenConstraint, 0);
  assert.equal((parsed.getExtension("keyUsage") as { keyCertSign?: boolean }).keyCertSign, true);
  assert.ok(parsed.getExtension("subjectKeyIdentifier"));
});

test("validity begins two days ago, and a leaf never outlives its CA", async () => {
  const at = Math.floor(now / 1000) * 1000;
  const ca = await issueAuthority({ now: at, days: 2 }, pooledKey);
  for (const [days, end] of [
    [1, at + DAY],
    [90, at + 2 * DAY],
    [0.5, at + DAY / 2],
  ] as const) {
    const [leaf] = parseCertificates((await issueLeaf(ca, NAMES, { now: at, days }, pooledKey)).cert);
    assert.equal(leaf?.notBefore, at - 49 * 3_600_000);
    assert.equal(leaf?.notAfter, end, `${days} days`);
  }
});

test("a CA that expires after 2050 is encoded as RFC 5280 requires", async () => {
  const ca = await issueAuthority({ now: Date.UTC(2045, 0, 1), days: 3650 }, pooledKey);
  assert.equal(new X509Certificate(ca.cert).validToDate.getUTCFullYear(), 2054);
});

test("serial numbers are 16 bytes, positive and different", async () => {
  const ca = await issueAuthority({ now, days: 1 }, pooledKey);
  const seen = new Set<string>();
  for (let count = 0; count < 12; count += 1) {
    const { serialNumber } = new X509Certificate((await issueLeaf(ca, NAMES, { now, days: 1 }, pooledKey)).cert);
    assert.match(serialNumber, /^[4-7][0-9A-F]{31}$/);
    seen.add(serialNumber);
  }
  assert.equal(seen.size, 12);
});

test("a leaf is signed by its own CA only, also when CAs share a key", async () => {
  const [a, b] = [await issueAuthority({ now, days: 1 }, pooledKey), await issueAuthority({ now, days: 1 }, pooledKey)];
  const [leaf] = parseCertificates((await issueLeaf(a, NAMES, { now, days: 1 }, pooledKey)).cert);
  const [first, second] = parseCertificates(a.cert + b.cert);
  assert.ok(leaf && first && second);
  assert.equal(isSignedBy(leaf, first), true);
  assert.equal(isSignedBy(leaf, second), false);
});

test("the names cover any namespace and cluster domain", async () => {
  const label = fc.stringMatching(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/);
  const ca = await issueAuthority({ now, days: 1 }, pooledKey);
  await fc.assert(
    fc.asyncProperty(label, fc.array(label, { minLength: 1, maxLength: 3 }), async (namespace, domain) => {
      const names = servingNames("switchback-webhook", namespace, domain.join("."));
      const leaf = new X509Certificate((await issueLeaf(ca, names, { now, days: 1 }, pooledKey)).cert);
      for (const name of names) assert.ok(leaf.checkHost(name, { subject: "never" }), name);
    }),
    { numRuns: 5 },
  );
});

test("the default key is RSA of 2,048 bits in PKCS #8", async () => {
  const key = await makeRsaKey();
  assert.match(key.privateKey, /^-----BEGIN PRIVATE KEY-----\n/);
  assert.equal(forge.pki.privateKeyFromPem(key.privateKey).n.bitLength(), 2048);
});
