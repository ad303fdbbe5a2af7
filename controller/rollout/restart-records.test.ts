import assert from "node:assert/strict";
import { test } from "node:test";
import { NO_VERSION } from "#lib/kube/leader-client.ts";
import { MemoryKube, refusal } from "#test/fakes/memory-kube.ts";
import { settled } from "#test/fakes/stopped-time.ts";
import { FULL_MAP_BYTES, MAX_MAP_BYTES, RECORD_MAPS, RECORDS_NAME, recordBytes } from "./record-map.ts";
import { DAY_MS, decodeRecord, encodeRecord, type Restart } from "./restart-history.ts";
import { RestartRecords } from "./restart-records.ts";

const PATH = `/api/v1/namespaces/ours/configmaps/${RECORDS_NAME}`;
const WEB = "shop/Deployment/web";
const NOW = 1_700_000_000_000;
const HOUR_MS = 3_600_000;
const never = new AbortController().signal;

function restart(at = NOW): Restart {
  return { at, begun: at, from: ["old"], to: "new", uid: "u", generation: 1 };
}

/** The clocks of a process: its own clock, and the wall clock. */
const clocks = () => ({ now: NOW, wall: NOW });

/** Opens the records, as a leader does at the start of its term. */
async function open(kube: MemoryKube, { clock = clocks(), signal = never } = {}): Promise<RestartRecords> {
  const deps = { client: kube.client, namespace: "ours", limitsMs: HOUR_MS };
  return await RestartRecords.open({ ...deps, now: () => clock.now, wallClock: () => clock.wall }, signal);
}

/** Records with these entries by key. */
async function opened(data?: Record<string, string>) {
  const kube = new MemoryKube();
  if (data !== undefined) kube.put(PATH, { data });
  const clock = clocks();
  return { kube, clock, records: await open(kube, { clock }) };
}

const dataIn = (kube: MemoryKube) => kube.at(PATH)?.data as Record<string, string> | undefined;

test("a missing ConfigMap is created with our field manager, and no workload has a history", async () => {
  const { kube, records } = await opened();
  const metadata = { name: RECORDS_NAME, namespace: "ours", resourceVersion: NO_VERSION };
  const object = { apiVersion: "v1", kind: "ConfigMap", metadata };
  assert.deepEqual(kube.writes, [{ method: "APPLY", path: PATH, fieldManager: "switchback-controller", body: object }]);
  assert.deepEqual([records.of(WEB), [...records.all()]], [[], []]);
});

test("nothing is read after the term has ended", async () => {
  const opening = open(new MemoryKube(), { signal: AbortSignal.abort(new Error("over")) });
  await assert.rejects(opening, /over/);
});

test("any other error is thrown, and no ConfigMap is created", async () => {
  const kube = new MemoryKube();
  kube.onRead = (path) => {
    throw refusal(path, 403);
  };
  await assert.rejects(open(kube), { status: 403 });
  assert.deepEqual(kube.writes, []);
});

test("the next leader reads what was written; a broken record yields a reason, and `all` skips it", async () => {
  const { kube, records } = await opened({ "shop.Deployment.broken": "{}" });
  await records.put(WEB, [restart()], never);
  const next = await open(kube);
  for (const each of [records, next]) {
    assert.deepEqual(each.of(WEB), [restart()]);
    assert.deepEqual([...each.all()], [{ workload: WEB, restarts: [restart()] }]);
    const broken = each.of("shop/Deployment/broken");
    assert.ok("code" in broken && broken.code === "history-unreadable");
  }
});

test("a write is a compare-and-swap: a former leader's is refused once the next one has written", async () => {
  const { kube, records: first } = await opened({});
  const second = await open(kube);
  const { resourceVersion } = kube.at(PATH)?.metadata ?? {};
  await second.put(WEB, [restart()], never);
  const data = { "shop.Deployment.web": encodeRecord(WEB, [restart()]) };
  const { body, fieldManager } = kube.writes.at(-1) ?? {};
  assert.deepEqual([body, fieldManager], [{ metadata: { uid: PATH, resourceVersion }, data }, "switchback-controller"]);
  const before = dataIn(kube);
  await assert.rejects(first.put(WEB, [restart(), restart()], never), { status: 409 });
  assert.deepEqual(dataIn(kube), before);
});

test("after a failed write, the records are read again, unless the term has ended", async () => {
  const { kube, records } = await opened({});
  const term = new AbortController();
  kube.onWrite = ({ path }) => {
    throw refusal(path, 500);
  };
  kube.onRead = () => settled();
  const before = kube.reads.length;
  kube.put(PATH, { data: { "shop.Deployment.web": encodeRecord(WEB, [restart(NOW - 1)]) } });
  await assert.rejects(records.put(WEB, [restart()], term.signal), { status: 500 });
  assert.deepEqual([kube.reads.length, records.of(WEB)], [before + 1, [restart(NOW - 1)]]);
  kube.onWrite = ({ path }) => {
    term.abort(new Error("over"));
    throw refusal(path, 500);
  };
  await assert.rejects(records.put(WEB, [restart()], term.signal), { status: 500 });
  assert.equal(kube.reads.length, before + 1);
});

test("an empty history removes the record", async () => {
  const { kube, records } = await opened({ "shop.Deployment.web": encodeRecord(WEB, [restart()]) });
  await records.put(WEB, [], never);
  assert.deepEqual([dataIn(kube), records.of(WEB)], [{}, []]);
});

test("the next write removes empty records, and those without a restart for a week, but not broken ones", async () => {
  const week = NOW - 7 * DAY_MS;
  const { kube, records } = await opened({
    old: encodeRecord("old", [restart(week - 1)]),
    young: encodeRecord("young", [restart(week - 1), restart(week)]),
    none: encodeRecord("none", []),
    broken: "[]",
  });
  await records.put(WEB, [restart()], never);
  assert.deepEqual(Object.keys(dataIn(kube) ?? {}).sort(), ["broken", "shop.Deployment.web", "young"]);
});

test("a name that is no valid key of a ConfigMap is hashed, and its record is found by the hash", async () => {
  const { kube, records } = await opened({});
  const fits = `shop/Deployment/${"w".repeat(253 - "shop.Deployment.".length)}`;
  const long = `${fits}w`;
  await records.put(fits, [restart(1)], never);
  await records.put(long, [restart(NOW)], never);
  await records.put("shop/Deployment/a b", [restart(NOW)], never);
  const keys = Object.keys(dataIn(kube) ?? {}).map((key) => key.length);
  // The first restart was long ago, so the second write removed its record.
  assert.deepEqual(keys, [12, 12]);
  assert.deepEqual(records.of(long), [restart(NOW)]);
  assert.deepEqual(records.of("shop/Deployment/a b"), [restart(NOW)]);
  assert.deepEqual(records.of(fits), []);
  await records.put(fits, [restart(NOW)], never);
  assert.equal(Object.keys(dataIn(kube) ?? {}).at(-1)?.length, 253);
});

test("a ConfigMap without data counts as empty", async () => {
  const kube = new MemoryKube();
  kube.put(PATH, { data: null });
  assert.deepEqual([...(await open(kube)).all()], []);
});

for (const [what, text] of [
  ["no JSON", "{"],
  ["null", "null"],
  ["no workload", JSON.stringify({ restarts: [] })],
  ["no restarts", JSON.stringify({ workload: WEB })],
  ["a time before 1970", encodeRecord(WEB, [restart(-1)])],
  ["a time that no date has", encodeRecord(WEB, [restart(8.64e15 + 1)])],
  ["an outcome that is none", encodeRecord(WEB, [{ ...restart(), outcome: "void" as "done" }])],
  ["no generation", JSON.stringify({ workload: WEB, restarts: [{ ...restart(), generation: undefined }] })],
] as const) {
  test(`a record with ${what} yields a reason, never an empty history`, () => {
    const record = decodeRecord(text);
    assert.ok("code" in record && record.code === "history-unreadable");
  });
}

test("the earliest time, the latest time and every outcome can be read", () => {
  for (const at of [0, 8.64e15]) assert.ok(!("code" in decodeRecord(encodeRecord(WEB, [restart(at)]))));
  for (const outcome of ["done", "failed", "reverted", undefined] as const) {
    const record = decodeRecord(encodeRecord(WEB, [{ ...restart(), outcome }]));
    assert.ok(!("code" in record) && record.restarts[0]?.outcome === outcome);
  }
});

/** The size of each ConfigMap of records, in bytes. */
function bytesIn(kube: MemoryKube): number[] {
  return RECORD_MAPS.map((name) => {
    const data = kube.field<Record<string, string>>(`/api/v1/namespaces/ours/configmaps/${name}`, "data");
    return Object.entries(data).reduce((sum, [key, text = ""]) => sum + recordBytes(key, text), 0);
  });
}

/** A ConfigMap full of records of 50 KB, the oldest first; the last restarts are `spread` apart and end at `last`. */
function fill(kube: MemoryKube, name: string, last: number, outcome?: Restart["outcome"]): void {
  const to = "x".repeat(50_000);
  const data: Record<string, string> = {};
  for (let index = 0; index < 16; index += 1) {
    const workload = `${name}/Deployment/w${index}`;
    data[workload.replaceAll("/", ".")] = encodeRecord(workload, [{ ...restart(last - 16 + index), to, outcome }]);
  }
  kube.put(`/api/v1/namespaces/ours/configmaps/${name}`, { data });
}

test("records that do not fit into one ConfigMap go to the next, and the next leader finds all of them", async () => {
  const { kube, records } = await opened({});
  fill(kube, RECORDS_NAME, NOW, "done");
  await assert.rejects(records.put(WEB, [restart()], never), { status: 409 }, "somebody has changed it");
  await records.put(WEB, [restart()], never);
  await records.put("shop/Deployment/other", [restart()], never);
  const next = await open(kube);
  for (const each of [records, next]) {
    assert.deepEqual(
      [each.of(WEB), each.of("shop/Deployment/other"), [...each.all()].length],
      [[restart()], [restart()], 18],
    );
  }
  const [first = 0, second = 0, third = 0] = bytesIn(kube);
  assert.ok(first > FULL_MAP_BYTES && first <= MAX_MAP_BYTES && second > 0 && third === 0, `${[first, second, third]}`);
  await next.put(WEB, [restart(NOW - 9), restart()], never);
  assert.deepEqual((await open(kube)).of(WEB), [restart(NOW - 9), restart()]);
});

test("a record that outgrows its ConfigMap moves; if a crash leaves two, the newer one counts", async () => {
  const { kube, records } = await opened({});
  await records.put(WEB, [restart(NOW - 5)], never);
  const own = dataIn(kube);
  fill(kube, RECORDS_NAME, NOW, "done");
  const filled = { ...dataIn(kube), ...own };
  kube.put(PATH, { data: filled });
  const left = MAX_MAP_BYTES - (bytesIn(kube)[0] ?? 0);
  const more = encodeRecord("more", [{ ...restart(), to: "x".repeat(left - 160) }]);
  kube.put(PATH, { data: { ...filled, more } });
  const next = await open(kube);
  kube.onWrite = ({ path, body }) => {
    if (path === PATH && JSON.stringify(body).includes("null")) throw refusal(path, 500);
  };
  await assert.rejects(next.put(WEB, [restart(NOW - 5), restart()], never), { status: 500 });
  kube.onWrite = () => {};
  assert.deepEqual((await open(kube)).of(WEB), [restart(NOW - 5), restart()]);
  assert.ok(bytesIn(kube).every((bytes) => bytes <= MAX_MAP_BYTES));
});

test("without room, the oldest records that limit nothing go; if all limit, new workloads get a reason", async () => {
  const kube = new MemoryKube();
  const old = NOW - 2 * DAY_MS;
  for (const name of RECORD_MAPS) fill(kube, name, name === RECORD_MAPS[3] ? old : NOW, "done");
  const records = await open(kube);
  assert.deepEqual(records.of(WEB), []);
  await records.put(WEB, [restart()], never);
  const kept = [...(await open(kube)).all()].map(({ workload }) => workload);
  assert.ok(kept.includes(WEB));
  assert.deepEqual(
    [kept.length, kept.includes(`${RECORD_MAPS[3]}/Deployment/w0`), kept.includes(`${RECORD_MAPS[3]}/Deployment/w15`)],
    [16 * 16, false, true],
    "one of 50 KB made room",
  );
  for (const [last, outcome] of [
    [NOW, "done"],
    [old, undefined],
  ] as const) {
    for (const name of RECORD_MAPS) fill(kube, name, last, outcome);
    const full = await open(kube);
    const reason = full.of("shop/Deployment/another");
    assert.ok("code" in reason && reason.code === "restarts-unrecorded", `${last} ${outcome}`);
    assert.ok(!("code" in full.of(`${RECORD_MAPS[0]}/Deployment/w0`)), "those with a record go on");
  }
});

test("long or many revisions, written by the owners of pods, do not make a record large", () => {
  const from = Array.from({ length: 1_000 }, (_, index) => `${index}`.padEnd(128, "x"));
  const text = encodeRecord(
    WEB,
    Array.from({ length: 7 }, () => ({ ...restart(), from })),
  );
  assert.ok(text.length < 4_000, `${text.length} bytes`);
  assert.ok(!("code" in decodeRecord(text)));
});

test("a record of a later format yields a reason and stays; other workloads are not affected", async () => {
  const later = JSON.stringify({ version: 2, workload: WEB, restarts: "of another kind" });
  const { kube, records } = await opened({ "shop.Deployment.web": later });
  const reason = records.of(WEB);
  assert.ok("code" in reason && reason.code === "history-version");
  await records.put("shop/Deployment/other", [restart()], never);
  assert.equal(dataIn(kube)?.["shop.Deployment.web"], later);
  assert.deepEqual(records.of("shop/Deployment/other"), [restart()]);
});

test("a clock jump moves no restart of this process; a restart recorded in the future has just begun", async () => {
  for (const jump of [HOUR_MS, -HOUR_MS]) {
    const { kube, clock, records } = await opened({});
    const begunOf = (each: RestartRecords) => {
      const history = each.of(WEB);
      return "code" in history ? undefined : history.map(({ begun }) => begun);
    };
    const first = { ...restart(clock.wall), begun: clock.now };
    await records.put(WEB, [first], never);
    clock.wall += jump;
    clock.now += 1_000;
    const second = { ...restart(clock.wall), begun: clock.now };
    await records.put(WEB, [first, second], never);
    assert.deepEqual(begunOf(records), [NOW, NOW + 1_000]);
    // Somebody else changes the ConfigMap, so it is read again.
    kube.put(PATH, { data: { ...dataIn(kube), more: "" } });
    await assert.rejects(records.put(WEB, [first, second], never), { status: 409 });
    assert.deepEqual(begunOf(records), [NOW, NOW + 1_000]);
    // The next leader has a correct clock.
    const next = await open(kube, { clock: { now: 7, wall: NOW + 2_000 } });
    assert.deepEqual(begunOf(next), [7 - 2_000, jump > 0 ? 7 : 7 - 2_000 + jump], "never later than now");
  }
});
