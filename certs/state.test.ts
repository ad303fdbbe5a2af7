import assert from "node:assert/strict";
import { before, test } from "node:test";
import { pooledKey } from "#test/fakes/keys.ts";
import { issueAuthority, issueLeaf, servingNames } from "./issue.ts";
import { type Certificate, loadPair, type PemPair, parseCertificates } from "./pem.ts";
import { type Authority, decodeCa, decodeLeaf, encodeCa, trustedBy } from "./state.ts";

const now = Date.now();
const NAMES = servingNames("switchback-webhook", "ns", "cluster.local");
const pairs: PemPair[] = [];
const secret = (data: Record<string, string>) => ({ data, version: "1" });
const authority = (at: number): Authority => ({ ...loadPair(pairs[at]!), key: pairs[at]!.key });
const certificate = (at: number): Certificate => parseCertificates(pairs[at]!.cert)[0]!;
const ids = (certs: readonly Certificate[]) => certs.map(({ id }) => id);

before(async () => {
  for (let at = 0; at < 3; at += 1) pairs.push(await issueAuthority({ now: now + at * 1000, days: 10 }, pooledKey));
});

test("decodeCa reads back what encodeCa wrote, at every stage of a rotation", () => {
  const [old, signer, next] = [certificate(0), authority(1), authority(2)];
  const none = { next: undefined, nextSince: undefined, previous: [], previousSince: undefined };
  for (const state of [
    { ...none, signer },
    { ...none, signer, next },
    { ...none, signer, next, nextSince: now },
    { ...none, signer, previous: [old] },
    { ...none, signer, previous: [old], previousSince: now },
    { ...none, signer: undefined, next, nextSince: now, previous: [old] },
  ]) {
    const data = encodeCa(state);
    const read = decodeCa(secret(data), [certificate(0)]);
    assert.equal(read.fault, undefined);
    assert.deepEqual(encodeCa(read), data);
    assert.deepEqual(ids(trustedBy(read)), ids(trustedBy(state)));
  }
});

test("only intact authorities have a key in the Secret, and each Secret has only the required keys", () => {
  const state = {
    signer: authority(1),
    next: undefined,
    nextSince: now,
    previous: [certificate(0)],
    previousSince: undefined,
  };
  assert.deepEqual(Object.keys(encodeCa(state)), ["ca.crt", "ca.key", "previous.crt"]);
});

test("no Secret and no known CA: a first start", () => {
  assert.deepEqual(decodeCa(undefined, []).fault, undefined);
  assert.deepEqual(decodeCa(secret({}), []).fault, undefined);
});

test("a lost or emptied Secret: the witnesses stay trusted, newest first and without duplicates", () => {
  for (const [lost, code] of [
    [undefined, "ca-secret-lost"],
    [secret({}), "ca-secret-empty"],
  ] as const) {
    const state = decodeCa(lost, [certificate(0), certificate(2), certificate(0)]);
    assert.equal(state.fault?.code, code);
    assert.deepEqual(ids(state.previous), ids([certificate(2), certificate(0)]));
    assert.deepEqual([state.signer, state.next], [undefined, undefined]);
  }
});

test("while the Secret is intact, another writer's CA in the bundle is not taken over", () => {
  const whole = decodeCa(secret({ "ca.crt": pairs[0]!.cert, "ca.key": pairs[0]!.key }), [certificate(1)]);
  assert.deepEqual([ids(trustedBy(whole)), whole.fault], [ids([certificate(0)]), undefined]);
});

test("the number of old CAs is limited if the Secret is lost repeatedly", async () => {
  const many: Certificate[] = [];
  for (let at = 0; at < 9; at += 1) {
    many.push(...parseCertificates((await issueAuthority({ now: now + at * 60_000, days: 1 }, pooledKey)).cert));
  }
  assert.deepEqual(ids(decodeCa(undefined, many).previous), ids(many.toReversed().slice(0, 6)));
});

test("a CA that is broken can no longer sign, but its certificate stays trusted, as do the witnesses", () => {
  const [own, other] = [pairs[0]!, pairs[1]!];
  for (const [title, data, kept] of [
    ["another's key", { "ca.crt": own.cert, "ca.key": other.key }, true],
    ["no key", { "ca.crt": own.cert }, true],
    ["no certificate", { "ca.key": own.key }, false],
    ["a key cut short", { "ca.crt": own.cert, "ca.key": own.key.slice(0, 300) }, true],
    ["a certificate cut short", { "ca.crt": own.cert.slice(0, 300), "ca.key": own.key }, false],
    ["binary rubbish", { "ca.crt": "\u0000\ufffd", "ca.key": "\ufffd" }, false],
  ] as const) {
    const state = decodeCa(secret({ ...data, "previous.since": new Date(now).toISOString() }), [certificate(2)]);
    assert.equal(state.fault?.code, "ca-broken", title);
    assert.equal(state.signer, undefined, title);
    assert.equal(state.previousSince, undefined, `${title}: the overlap starts again`);
    assert.deepEqual(ids(state.previous), ids(kept ? [certificate(2), certificate(0)] : [certificate(2)]), title);
    assert.ok(!state.fault?.text.includes("PRIVATE"), title);
  }
});

test("a leaf that is stored instead of the CA is not accepted as a CA", async () => {
  const leaf = await issueLeaf(pairs[0]!, NAMES, { now, days: 1 }, pooledKey);
  const state = decodeCa(secret({ "ca.crt": leaf.cert, "ca.key": leaf.key }), []);
  assert.deepEqual([state.fault?.code, state.signer, state.previous], ["ca-broken", undefined, []]);
});

test("a broken next CA does not affect the one that signs", () => {
  const whole = { "ca.crt": pairs[0]!.cert, "ca.key": pairs[0]!.key };
  const state = decodeCa(secret({ ...whole, "next.crt": pairs[1]!.cert, "next.since": "x" }), []);
  assert.deepEqual([state.signer?.id, state.next, state.fault?.code], [certificate(0).id, undefined, "next-broken"]);
});

test("an unreadable time restarts the wait", () => {
  const data = { "ca.crt": pairs[0]!.cert, "ca.key": pairs[0]!.key, "previous.crt": pairs[1]!.cert };
  assert.equal(decodeCa(secret({ ...data, "previous.since": "yesterday" }), []).previousSince, undefined);
  assert.equal(
    decodeCa(secret({ ...data, "previous.since": "2026-01-01T00:00:00Z" }), []).previousSince,
    Date.UTC(2026),
  );
});

test("a leaf is checked for its signer, its names and its key", async () => {
  const trusted = [certificate(1), certificate(0)];
  const leaf = await issueLeaf(pairs[0]!, NAMES, { now, days: 1 }, pooledKey);
  const read = (cert: string, key: string, names = NAMES) =>
    decodeLeaf(secret({ "tls.crt": cert, "tls.key": key }), trusted, names);
  const { leaf: facts } = read(leaf.cert, leaf.key);
  assert.deepEqual([facts?.signedBy, facts?.coversNames], [certificate(0).id, true]);
  assert.equal(read(leaf.cert, leaf.key, [...NAMES, "switchback-webhook.ns.svc.cozy.local"]).leaf?.coversNames, false);
  assert.equal(
    decodeLeaf(secret({ "tls.crt": leaf.cert, "tls.key": leaf.key }), [certificate(2)], NAMES).leaf?.signedBy,
    undefined,
  );
  assert.equal(read(leaf.cert, pairs[1]!.key).leafFault?.code, "leaf-broken");
  assert.equal(read("", "").leafFault?.code, "leaf-broken");
  assert.deepEqual(decodeLeaf(undefined, trusted, NAMES), { leaf: undefined, leafFault: undefined });
});
