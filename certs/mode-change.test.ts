import assert from "node:assert/strict";
import { before, test } from "node:test";
import forge from "node-forge";
import { pooledKey } from "#test/fakes/keys.ts";
import { issueAuthority, issueLeaf, servingNames } from "./issue.ts";
import { takeOver } from "./mode-change.ts";
import { type Certificate, chainsTo, loadPair, type PemPair, parseCertificates, readableAuthorities } from "./pem.ts";
import type { CaState } from "./state.ts";

const DAY = 86_400_000;
const now = Date.UTC(2026, 0, 1);
const NAMES = servingNames("switchback-webhook", "ns", "cluster.local");
const certs = (...pairs: PemPair[]) => pairs.flatMap(({ cert }) => parseCertificates(cert));
const ids = (list: readonly (Certificate | undefined)[]) => list.map((certificate) => certificate?.id);

let ours: PemPair;
let theirs: PemPair;
let other: PemPair;
let ourLeaf: PemPair;
let theirLeaf: PemPair;
let state: CaState;

before(async () => {
  [ours, theirs, other] = (await Promise.all(
    [100, 100, 100].map((days) => issueAuthority({ now, days }, pooledKey)),
  )) as [PemPair, PemPair, PemPair];
  ourLeaf = await issueLeaf(ours, NAMES, { now, days: 10 }, pooledKey);
  theirLeaf = await issueLeaf(theirs, NAMES, { now, days: 10 }, pooledKey);
  const signer = { ...loadPair(ours), key: ours.key };
  const none = { next: undefined, nextSince: undefined, previous: [], previousSince: undefined, fault: undefined };
  state = { signer, ...none };
});

test("a leaf of another CA: that CA stays trusted, and Switchback's is the next one", () => {
  const used = { now, chain: certs(theirLeaf), offered: certs(theirs), live: certs(theirs) };
  const taken = takeOver(state, used);
  assert.deepEqual([taken.fault?.code, taken.signer, taken.nextSince], ["leaf-foreign", undefined, undefined]);
  assert.deepEqual([ids([taken.next]), ids(taken.previous)], [ids([state.signer]), ids(certs(theirs))]);
  const written = { ...taken, fault: undefined };
  assert.equal(takeOver(written, used), written, "once is enough");
});

test("another CA's TLS Secret is deleted, but the API server trusts that CA: replicas may still serve its leaf", () => {
  const taken = takeOver(state, { now, chain: [], offered: [], live: certs(theirs) });
  assert.equal(taken.fault?.code, "bundle-foreign");
  assert.deepEqual([ids([taken.next]), ids(taken.previous)], [ids([state.signer]), ids(certs(theirs))]);
});

test("Switchback's leaf and another manager's bundle: both CAs are kept, and the overlap starts again", () => {
  const before = { ...state, previous: certs(other), previousSince: now - 1 };
  const taken = takeOver(before, { now, chain: certs(ourLeaf), offered: [], live: certs(theirs) });
  assert.deepEqual([taken.signer, taken.previousSince], [state.signer, undefined]);
  assert.deepEqual(ids(taken.previous), ids(certs(other, theirs)));
});

test("if an API server has lost the next CA, the wait for it starts again", () => {
  const waiting = { ...state, signer: undefined, next: state.signer, nextSince: now, previous: certs(theirs) };
  const lost = takeOver(waiting, { now, chain: certs(theirLeaf), offered: [], live: certs(theirs) });
  assert.deepEqual([lost.fault?.code, lost.nextSince], ["bundle-foreign", undefined]);
  const held = { now, chain: certs(theirLeaf), offered: [], live: certs(ours, theirs) };
  assert.equal(takeOver(waiting, held), waiting);
});

test("a restored bundle without the next CA: the wait for the next CA starts again", () => {
  const next = { ...loadPair(other), key: other.key };
  const waiting = { ...state, next, nextSince: now - 1 };
  const put = takeOver(waiting, { now, chain: certs(ourLeaf), offered: [], live: certs(ours) });
  assert.deepEqual([put.fault?.code, put.nextSince, ids([put.next])], ["bundle-put-back", undefined, ids([next])]);
  const emptied = { now, chain: certs(ourLeaf), offered: [], live: [] };
  assert.equal(takeOver(waiting, emptied), waiting, "an API server without any CA accepts neither leaf");
});

test("a restored leaf of a previous CA: the wait for the signer's leaf starts again", () => {
  const waiting = { ...state, previous: certs(theirs), previousSince: now - 1 };
  const put = takeOver(waiting, { now, chain: certs(theirLeaf), offered: [], live: certs(ours, theirs) });
  assert.deepEqual([put.fault?.code, put.previousSince], ["leaf-put-back", undefined]);
  assert.equal(
    takeOver({ ...put, fault: undefined }, { now, chain: certs(theirLeaf), offered: [], live: certs(ours, theirs) })
      .fault,
    undefined,
  );
});

test("nothing is taken over from an untrusted leaf, from expired certificates, or in an ordinary rotation", () => {
  for (const used of [
    { now, chain: certs(theirLeaf), offered: certs(other), live: certs(ours) },
    { now: now + 20 * DAY, chain: certs(theirLeaf), offered: certs(theirs), live: certs(ours) },
    { now, chain: certs(ourLeaf), offered: certs(ours, theirs), live: certs(ours, other) },
    { now, chain: certs(ourLeaf), offered: [], live: [] },
  ]) {
    assert.equal(takeOver(state, used), state);
  }
});

test("an expired CA of Switchback is not kept", () => {
  const used = { now: now + 200 * DAY, chain: [], offered: [], live: certs(theirs) };
  const longer = { ...used, live: [{ ...certs(theirs)[0]!, notAfter: now + 300 * DAY }] };
  const taken = takeOver(state, longer);
  assert.deepEqual([taken.signer, taken.next, taken.previous.length], [undefined, undefined, 1]);
});

test("a chain verifies through the intermediates of a leaf, and for a leaf that is its own CA", async () => {
  const middle = await issueAuthority({ now, days: 50 }, pooledKey);
  const leaf = await issueLeaf(middle, NAMES, { now, days: 10 }, pooledKey);
  const cross = forge.pki.certificateFromPem(middle.cert);
  cross.setIssuer(forge.pki.certificateFromPem(theirs.cert).subject.attributes);
  const extensions = cross.extensions.filter(({ name }) => name !== "authorityKeyIdentifier");
  cross.setExtensions(extensions);
  cross.sign(forge.pki.privateKeyFromPem(theirs.key), forge.md.sha256.create());
  const chain = certs(leaf, { cert: forge.pki.certificateToPem(cross), key: "" });
  const [root, stranger] = certs(theirs, other);
  assert.deepEqual([chainsTo(chain, root!), chainsTo(chain, stranger!)], [true, false]);
  assert.equal(chainsTo(chain.slice(0, 1), root!), false, "without the intermediate");
  const self = forge.pki.certificateFromPem(leaf.cert);
  self.setIssuer(self.subject.attributes);
  self.sign(forge.pki.privateKeyFromPem(leaf.key), forge.md.sha256.create());
  const [alone] = readableAuthorities(forge.pki.certificateToPem(self));
  assert.ok(alone && chainsTo([alone], alone));
  assert.deepEqual(readableAuthorities(leaf.cert), [], "an ordinary leaf is not a CA");
});
