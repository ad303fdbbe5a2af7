import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { connect } from "node:tls";
import type { Reason } from "#hostmap/types.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { pooledKey } from "#test/fakes/keys.ts";
import { issueAuthority, issueLeaf } from "./issue.ts";
import { loadPair, type PemPair } from "./pem.ts";
import { type ServingWatch, watchServingCertificate } from "./serving.ts";
import { fileSource } from "./serving-files.ts";

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
  return { watch, taken, warnings, offer: (found: PemPair | Reason) => offer(found) };
}

test("passes a pair on once, and then the next one", () => {
  const { watch, taken, offer } = follow();
  assert.deepEqual([watch.status().fingerprint, watch.status().problem?.code], [undefined, "pair-missing"]);
  offer(leaves[0]!);
  offer({ ...leaves[0]! });
  offer(leaves[1]!);
  assert.deepEqual(taken, [idOf(leaves[0]!), idOf(leaves[1]!)]);
  assert.deepEqual(watch.status(), {
    fingerprint: taken[1],
    notAfter: loadPair(leaves[1]!).notAfter,
    problem: undefined,
  });
});

test("a pair that does not load is rejected with one warning, and the old one stays in use", () => {
  const [good, other] = [leaves[0]!, leaves[1]!];
  for (const bad of [
    { cert: good.cert, key: other.key },
    { cert: "", key: "" },
    { cert: other.cert.slice(0, 200), key: other.key },
    { cert: other.cert, key: other.key.slice(0, 200) },
  ]) {
    const { watch, taken, warnings, offer } = follow();
    offer(good);
    offer(bad);
    offer(bad);
    assert.deepEqual(taken, [idOf(good)]);
    assert.deepEqual([watch.status().fingerprint, watch.status().problem?.code], [idOf(good), "pair-invalid"]);
    assert.deepEqual(warnings, ["pair-invalid"]);
    offer(other);
    assert.deepEqual([watch.status().fingerprint, watch.status().problem], [idOf(other), undefined]);
  }
});

test("a source that loses its pair does not remove the pair in use", () => {
  const { watch, warnings, offer } = follow();
  offer(leaves[0]!);
  offer({ code: "secret-missing", text: "gone" });
  assert.deepEqual([watch.status().fingerprint, watch.status().problem?.code], [idOf(leaves[0]!), "secret-missing"]);
  offer(leaves[0]!);
  assert.deepEqual([watch.status().problem, warnings], [undefined, ["secret-missing"]]);
});

test("a pair that the server does not accept is rejected", () => {
  let broken = true;
  const { watch, taken, offer } = follow(() => {
    if (broken) throw new Error("ERR_OSSL");
  });
  offer(leaves[0]!);
  assert.deepEqual([watch.status().fingerprint, watch.status().problem?.code], [undefined, "pair-not-taken"]);
  broken = false;
  offer(leaves[0]!);
  assert.deepEqual([taken.length, watch.status().problem], [1, undefined]);
});

test("an expired pair is rejected while the pair in use is valid, and accepted otherwise", async () => {
  const expired = await leafAt(START - 20 * DAY, 10);
  const { watch, taken, offer } = follow();
  offer(expired);
  assert.deepEqual([taken.length, watch.status().problem?.code], [1, "pair-expired"], "better than no server");
  offer(leaves[0]!);
  offer(expired);
  assert.deepEqual(
    [taken.length, watch.status().fingerprint, watch.status().problem?.code],
    [2, idOf(leaves[0]!), "pair-expired"],
  );
  now += 11 * DAY;
  offer(leaves[0]!);
  assert.equal(watch.status().problem?.code, "pair-expired", "the pair in use has expired since then");
});

test("a pair that is not valid yet is accepted with a warning: this clock may be wrong", async () => {
  const early = await leafAt(START + DAY, 10);
  const { watch, offer } = follow();
  offer(leaves[0]!);
  offer(early);
  assert.deepEqual([watch.status().fingerprint, watch.status().problem?.code], [idOf(early), "pair-not-yet-valid"]);
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

/** Polls at most 3 s. */
async function served(watch: ServingWatch, pair: PemPair): Promise<void> {
  for (let tries = 0; tries < 150 && watch.status().fingerprint !== idOf(pair); tries += 1) await delay(20);
  assert.equal(watch.status().fingerprint, idOf(pair));
}

const options = { now: () => START, log: silentLogger };

/** A Secret volume like the kubelet's: a directory for each version, a link `..data` to it, files linked through it. */
async function mount(volume: string, version: string, pair: PemPair): Promise<void> {
  await mkdir(join(volume, version), { recursive: true });
  await writeFile(join(volume, version, "tls.crt"), pair.cert);
  await writeFile(join(volume, version, "tls.key"), pair.key);
  await symlink(version, join(volume, "..data_tmp"));
  await rename(join(volume, "..data_tmp"), join(volume, "..data"));
}

test("files: the kubelet's swap of `..data` is noticed by its event", async (t) => {
  const volume = join(folder, "volume");
  await mount(volume, "..v1", leaves[0]!);
  for (const file of ["tls.crt", "tls.key"]) await symlink(join("..data", file), join(volume, file));
  const source = fileSource({ certFile: join(volume, "tls.crt"), keyFile: join(volume, "tls.key"), pollMs: 3_600_000 });
  const watch = watchServingCertificate(source, () => undefined, options);
  t.after(() => watch.stop());
  await served(watch, leaves[0]!);
  await mount(volume, "..v2", leaves[1]!);
  await rm(join(volume, "..v1"), { recursive: true });
  await served(watch, leaves[1]!);
  await mount(volume, "..v3", leaves[2]!);
  await served(watch, leaves[2]!);
});

test("files: two files written one after the other are read together", async (t) => {
  const [certFile, keyFile] = [join(folder, "a.crt"), join(folder, "a.key")];
  const write = async (pair: PemPair) => {
    await writeFile(certFile, pair.cert);
    await delay(20);
    await writeFile(keyFile, pair.key);
  };
  await write(leaves[0]!);
  const problems: string[] = [];
  const log = { ...silentLogger, warn: (fields: object) => void problems.push((fields as Reason).code) };
  const source = fileSource({ certFile, keyFile, pollMs: 3_600_000 });
  const watch = watchServingCertificate(source, () => undefined, { ...options, log });
  t.after(() => watch.stop());
  await served(watch, leaves[0]!);
  await write(leaves[1]!);
  await served(watch, leaves[1]!);
  assert.deepEqual(problems, []);
});

test("files: the poll finds a directory that is created later; deleted files do not remove the pair", async (t) => {
  const late = join(folder, "late");
  const [certFile, keyFile] = [join(late, "tls.crt"), join(late, "tls.key")];
  const watch = watchServingCertificate(fileSource({ certFile, keyFile, pollMs: 50 }), () => undefined, options);
  t.after(() => watch.stop());
  for (let tries = 0; tries < 50 && watch.status().problem?.code !== "files-unreadable"; tries += 1) await delay(20);
  assert.equal(watch.status().problem?.code, "files-unreadable");
  await mkdir(late);
  await writeFile(certFile, leaves[0]!.cert);
  await writeFile(keyFile, leaves[0]!.key);
  await served(watch, leaves[0]!);
  await rm(late, { recursive: true });
  await delay(200);
  assert.deepEqual([watch.status().fingerprint, watch.status().problem?.code], [idOf(leaves[0]!), "files-unreadable"]);
});
