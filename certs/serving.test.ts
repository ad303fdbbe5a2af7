import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach, test } from "node:test";
import { connect } from "node:tls";
import type { Reason } from "#hostmap/types.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { pooledKey } from "#test/fakes/keys.ts";
import { stopTime } from "#test/fakes/stopped-time.ts";
import { issueAuthority, issueLeaf } from "./issue.ts";
import { loadPair, type PemPair } from "./pem.ts";
import { watchServingCertificate } from "./serving.ts";
import { fileSource } from "./serving-sources.ts";

const DAY = 86_400_000;
const START = Date.now();
let now: number;
let ca: PemPair;
const leaves: PemPair[] = [];
let folder: string;

const leafAt = (at: number, days: number) => issueLeaf(ca, ["switchback-webhook.ns.svc"], { now: at, days }, pooledKey);
const idOf = (pair: PemPair) => loadPair(pair).id;

before(async () => {
  ca = await issueAuthority({ now: START - DAY, days: 100 }, pooledKey);
  for (let count = 0; count < 3; count += 1) leaves.push(await leafAt(START, 10));
  folder = await mkdtemp(join(tmpdir(), "switchback-certs-"));
});
after(() => rm(folder, { recursive: true }));
beforeEach(() => {
  now = START;
});

/** A source that the test controls, and the results. */
function follow(onPair: (pair: PemPair) => void = () => undefined) {
  let offer: (found: PemPair | Reason) => void = () => assert.fail("not started");
  const taken: string[] = [];
  const warnings: string[] = [];
  const source = {
    start(found: typeof offer) {
      offer = found;
      return { stop: async () => undefined };
    },
  };
  const log = { ...silentLogger, warn: (fields: object) => void warnings.push((fields as Reason).code) };
  const take = (pair: PemPair) => {
    onPair(pair);
    taken.push(idOf(pair));
  };
  const watch = watchServingCertificate(source, take, { now: () => now, log });
  /** The pair in use, and the code of the problem. */
  const state = () => [taken.at(-1), watch.status().problem?.code];
  return { watch, taken, warnings, state, offer: (found: PemPair | Reason) => offer(found) };
}

test("passes a pair on once, and then the next one", () => {
  const { watch, taken, offer, state } = follow();
  assert.deepEqual(state(), [undefined, "pair-missing"]);
  offer(leaves[0]!);
  offer({ ...leaves[0]! });
  offer(leaves[1]!);
  assert.deepEqual(taken, [idOf(leaves[0]!), idOf(leaves[1]!)]);
  assert.deepEqual(watch.status(), { notAfter: loadPair(leaves[1]!).notAfter, problem: undefined });
});

test("a pair that does not load is rejected with one warning, and the old one stays in use", () => {
  const [good, other] = [leaves[0]!, leaves[1]!];
  for (const bad of [
    { cert: good.cert, key: other.key },
    { cert: "", key: "" },
    { cert: other.cert.slice(0, 200), key: other.key },
    { cert: other.cert, key: other.key.slice(0, 200) },
  ]) {
    const { taken, warnings, offer, state } = follow();
    offer(good);
    offer(bad);
    offer(bad);
    assert.deepEqual(taken, [idOf(good)]);
    assert.deepEqual(state(), [idOf(good), "pair-invalid"]);
    assert.deepEqual(warnings, ["pair-invalid"]);
    offer(other);
    assert.deepEqual(state(), [idOf(other), undefined]);
  }
});

test("a source that loses its pair does not remove the pair in use", () => {
  const { watch, warnings, offer, state } = follow();
  offer(leaves[0]!);
  offer({ code: "pair-missing", text: "gone" });
  assert.deepEqual(state(), [idOf(leaves[0]!), "pair-missing"]);
  offer(leaves[0]!);
  assert.deepEqual([watch.status().problem, warnings], [undefined, ["pair-missing"]]);
});

test("a pair that the server does not accept is rejected", () => {
  let broken = true;
  const { watch, taken, offer, state } = follow(() => {
    if (broken) throw new Error("ERR_OSSL");
  });
  offer(leaves[0]!);
  assert.deepEqual(state(), [undefined, "pair-invalid"]);
  broken = false;
  offer(leaves[0]!);
  assert.deepEqual([taken.length, watch.status().problem], [1, undefined]);
});

test("an expired pair is rejected while the pair in use is valid, and accepted otherwise", async () => {
  const expired = await leafAt(START - 20 * DAY, 10);
  const { watch, taken, offer, state } = follow();
  offer(expired);
  assert.deepEqual([taken.length, watch.status().problem?.code], [1, "pair-not-current"], "better than no server");
  offer(leaves[0]!);
  offer(expired);
  assert.deepEqual([taken.length, ...state()], [2, idOf(leaves[0]!), "pair-not-current"]);
  now += 11 * DAY;
  offer(leaves[0]!);
  assert.equal(watch.status().problem?.code, "pair-not-current", "the pair in use has expired since then");
});

test("a pair that is not valid yet is accepted with a warning: this clock may be wrong", async () => {
  const early = await leafAt(START + 4 * DAY, 10);
  const { offer, state } = follow();
  offer(leaves[0]!);
  offer(early);
  assert.deepEqual(state(), [idOf(early), "pair-not-current"]);
});

test("a server serves the new certificate to the next connection, and keeps old connections open", async (t) => {
  const server = createServer(leaves[0]!);
  t.after(() => server.close());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const greet = async () => {
    const socket = connect({ port, host: "127.0.0.1", ca: ca.cert, servername: "switchback-webhook.ns.svc" });
    await once(socket, "secureConnect");
    return { socket, id: socket.getPeerX509Certificate()?.fingerprint256 };
  };
  const { offer } = follow((pair) => server.setSecureContext(pair));
  const first = await greet();
  offer(leaves[1]!);
  const second = await greet();
  assert.deepEqual([first.id, second.id], [idOf(leaves[0]!), idOf(leaves[1]!)]);
  assert.equal(first.socket.destroyed, false);
  first.socket.destroy();
  second.socket.destroy();
});

test("files: a later pair is found, replaced files are read again, and deleted ones stay in use", async (t) => {
  const pass = stopTime(t, 10_000);
  const late = join(folder, "late");
  const [certFile, keyFile] = [join(late, "tls.crt"), join(late, "tls.key")];
  let served: string | undefined;
  const take = (pair: PemPair) => {
    served = idOf(pair);
  };
  const watch = watchServingCertificate(fileSource(certFile, keyFile), take, { now: () => START, log: silentLogger });
  t.after(() => watch.stop());
  /** Files are read outside of the stopped clock, so several polls may pass until a change is seen. */
  const seen = async (id: string | undefined, problem: string | undefined) => {
    const isSeen = () => served === id && watch.status().problem?.code === problem;
    for (let polls = 0; polls < 2_000 && !isSeen(); polls += 1) await pass(10_000);
    assert.deepEqual([served, watch.status().problem?.code], [id, problem]);
  };
  await seen(undefined, "pair-missing");
  await mkdir(late);
  for (const pair of leaves.slice(0, 2)) {
    await writeFile(certFile, pair.cert);
    await writeFile(keyFile, pair.key);
    await seen(idOf(pair), undefined);
  }
  await rm(late, { recursive: true });
  await seen(idOf(leaves[1]!), "pair-missing");
});
