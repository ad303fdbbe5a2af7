import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { pooledKey } from "#test/fakes/keys.ts";
import { issueAuthority, issueLeaf } from "./issue.ts";
import { chainsTo, isSignedBy, loadPair, type PemPair, parseCertificates, readableAuthorities } from "./pem.ts";

const LIFE = { now: Date.now(), days: 1 };
const BROKEN = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

let ca: PemPair;
let other: PemPair;
let leaf: PemPair;
before(async () => {
  ca = await issueAuthority(LIFE, pooledKey);
  other = await issueAuthority(LIFE, pooledKey);
  leaf = await issueLeaf(ca, ["a.svc"], LIFE, pooledKey);
});

const one = (pem: string) => {
  const [first, ...rest] = parseCertificates(pem);
  assert.ok(first !== undefined && rest.length === 0);
  return first;
};

describe("a PEM text", () => {
  test("has its certificates in order, each with its block, its times and its fingerprint", () => {
    const [first, second, ...rest] = parseCertificates(`text\n${leaf.cert}\n\n${ca.cert.trim()}`);
    assert.deepEqual([first?.pem, second?.pem, rest], [leaf.cert, ca.cert, []]);
    const { x509, ...facts } = one(ca.cert);
    assert.deepEqual(facts, {
      id: x509.fingerprint256,
      pem: ca.cert,
      notBefore: Date.parse(x509.validFrom),
      notAfter: Date.parse(x509.validTo),
    });
  });

  for (const [what, text, message] of [
    ["without a certificate", "text", "the text contains no certificate"],
    ["with a broken one", BROKEN, "the certificate does not parse"],
  ] as const) {
    test(`${what} is refused`, () => {
      assert.throws(() => parseCertificates(text), { code: "pair-invalid", message });
    });
  }

  test("of another writer gives the CAs that parse, without leaves", () => {
    const pems = readableAuthorities(`${BROKEN}${leaf.cert}${ca.cert}${BROKEN}${other.cert}`).map(({ pem }) => pem);
    assert.deepEqual(pems, [ca.cert, other.cert]);
    assert.deepEqual(readableAuthorities("text"), []);
  });
});

describe("a pair", () => {
  test("that can be served loads as its first certificate", () => {
    assert.equal(loadPair({ cert: leaf.cert + ca.cert, key: leaf.key }).id, one(leaf.cert).id);
  });

  for (const [what, pair, message] of [
    ["without a certificate", () => ({ cert: "", key: leaf.key }), "the text contains no certificate"],
    ["of two", () => ({ cert: leaf.cert, key: ca.key }), "the certificate and the key do not load together"],
    ["without a key", () => ({ cert: leaf.cert, key: "" }), "the certificate and the key do not load together"],
    ["with a broken chain", () => ({ cert: `${leaf.cert}${BROKEN}`, key: leaf.key }), "the certificate does not parse"],
  ] as const) {
    test(`${what} is refused`, () => {
      assert.throws(() => loadPair(pair()), { code: "pair-invalid", message });
    });
  }
});

test("a certificate is signed by its own CA, not by another", () => {
  const signed = [ca, other].map(({ cert }) => isSignedBy(one(leaf.cert), one(cert)));
  assert.deepEqual(signed, [true, false]);
});

test("a client that trusts a chain's CA or its leaf accepts the chain, even with other certificates in it", () => {
  const [first, authority, foreign] = [leaf, ca, other].map(({ cert }) => one(cert));
  assert.ok(first && authority && foreign);
  assert.equal(chainsTo([first], authority), true);
  assert.equal(chainsTo([first], first), true);
  assert.equal(chainsTo([first, foreign, authority], authority), true);
  assert.equal(chainsTo([first, authority], foreign), false);
  assert.equal(chainsTo([foreign, authority], authority), false);
  assert.equal(chainsTo([], authority), false);
});
