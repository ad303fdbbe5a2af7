import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryKube, refusal } from "../../test/fakes/memory-kube.ts";
import { DAY_MS, decodeRecord, encodeRecord, type Restart } from "./restart-history.ts";
import { RECORDS_NAME, RestartRecords } from "./restart-records.ts";

const PATH = `/api/v1/namespaces/ours/configmaps/${RECORDS_NAME}`;
const WEB = "shop/Deployment/web";
const NOW = 1_700_000_000_000;
const never = new AbortController().signal;

function restart(at = NOW): Restart {
  return { at, from: ["old"], to: "new", uid: "u", generation: 1 };
}

/** Records with these entries by key. */
async function opened(data?: Record<string, string>) {
  const kube = new MemoryKube();
  if (data !== undefined) kube.put(PATH, { data });
  return { kube, records: await RestartRecords.open(kube.client, "ours", never) };
}

const dataIn = (kube: MemoryKube) => kube.at(PATH)?.data as Record<string, string> | undefined;

test("a missing ConfigMap is created with our field manager, and no workload has a history", async () => {
  const { kube, records } = await opened();
  const object = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: RECORDS_NAME, namespace: "ours" } };
  assert.deepEqual(kube.writes, [{ method: "APPLY", path: PATH, fieldManager: "switchback-controller", body: object }]);
  assert.deepEqual([records.of(WEB), [...records.all()]], [[], []]);
});

test("any other error is thrown, and nothing is created", async () => {
  const kube = new MemoryKube();
  kube.onRead = (path) => {
    throw refusal(path, 403);
  };
  await assert.rejects(RestartRecords.open(kube.client, "ours", never), { status: 403 });
  assert.deepEqual(kube.writes, []);
});

test("the next leader reads what was written; a broken record gives a reason, and `all` leaves it out", async () => {
  const { kube, records } = await opened({ "shop.Deployment.broken": "{}" });
  await records.put(WEB, [restart()], NOW, never);
  const next = await RestartRecords.open(kube.client, "ours", never);
  for (const each of [records, next]) {
    assert.deepEqual(each.of(WEB), [restart()]);
    assert.deepEqual([...each.all()], [{ workload: WEB, restarts: [restart()] }]);
    const broken = each.of("shop/Deployment/broken");
    assert.ok("code" in broken && broken.code === "history-unreadable");
  }
});

test("a write is a compare-and-swap: the second of two leaders is refused, and then reads what the first wrote", async () => {
  const { kube, records: first } = await opened({});
  const second = await RestartRecords.open(kube.client, "ours", never);
  await first.put(WEB, [restart()], NOW, never);
  const data = { "shop.Deployment.web": encodeRecord(WEB, [restart()]) };
  assert.deepEqual(kube.writes[0]?.body, { metadata: { resourceVersion: "1" }, data });
  assert.equal(kube.writes[0]?.fieldManager, "switchback-controller");
  await assert.rejects(second.put(WEB, [restart(NOW + 1)], NOW, never), { status: 409 });
  assert.deepEqual(second.of(WEB), [restart()]);
  await second.put(WEB, [restart(NOW + 1)], NOW, never);
  assert.deepEqual(second.of(WEB), [restart(NOW + 1)]);
});

test("after a failed write the records are read again, unless the term has ended", async () => {
  const { kube, records } = await opened({});
  const term = new AbortController();
  kube.onWrite = ({ path }) => {
    throw refusal(path, 500);
  };
  const before = kube.reads.length;
  await assert.rejects(records.put(WEB, [restart()], NOW, term.signal), { status: 500 });
  assert.equal(kube.reads.length, before + 1);
  kube.onWrite = () => term.abort(new Error("over"));
  await assert.rejects(records.put(WEB, [restart()], NOW, term.signal), /over/);
  assert.equal(kube.reads.length, before + 1);
});

test("an empty history removes the record", async () => {
  const { kube, records } = await opened({ "shop.Deployment.web": encodeRecord(WEB, [restart()]) });
  await records.put(WEB, [], NOW, never);
  assert.deepEqual([dataIn(kube), records.of(WEB)], [{}, []]);
});

test("the next write removes empty records, and those whose last restart is more than a week old; broken ones stay", async () => {
  const week = NOW - 7 * DAY_MS;
  const { kube, records } = await opened({
    old: encodeRecord("old", [restart(week - 1)]),
    young: encodeRecord("young", [restart(week - 1), restart(week)]),
    none: encodeRecord("none", []),
    broken: "[]",
  });
  await records.put(WEB, [restart()], NOW, never);
  assert.deepEqual(Object.keys(dataIn(kube) ?? {}).sort(), ["broken", "shop.Deployment.web", "young"]);
});

test("a name that cannot be a ConfigMap's key is hashed, and its record is found by the hash", async () => {
  const { kube, records } = await opened({});
  const fits = `shop/Deployment/${"w".repeat(253 - "shop.Deployment.".length)}`;
  const long = `${fits}w`;
  await records.put(fits, [restart(1)], NOW, never);
  await records.put(long, [restart(NOW)], NOW, never);
  await records.put("shop/Deployment/a b", [restart(NOW)], NOW, never);
  const keys = Object.keys(dataIn(kube) ?? {}).map((key) => key.length);
  // The first was long ago: the second write removed it.
  assert.deepEqual(keys, [12, 12]);
  assert.deepEqual(records.of(long), [restart(NOW)]);
  assert.deepEqual(records.of("shop/Deployment/a b"), [restart(NOW)]);
  assert.deepEqual(records.of(fits), []);
  await records.put(fits, [restart(NOW)], NOW, never);
  assert.equal(Object.keys(dataIn(kube) ?? {}).at(-1)?.length, 253);
});

test("a ConfigMap without data is an empty one", async () => {
  const kube = new MemoryKube();
  kube.put(PATH, { data: null });
  assert.deepEqual([...(await RestartRecords.open(kube.client, "ours", never)).all()], []);
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
  test(`a record with ${what} is a reason, never an empty history`, () => {
    const record = decodeRecord(text);
    assert.ok("code" in record && record.code === "history-unreadable");
  });
}

test("the earliest and the latest time, and every outcome, read", () => {
  for (const at of [0, 8.64e15]) assert.ok(!("code" in decodeRecord(encodeRecord(WEB, [restart(at)]))));
  for (const outcome of ["done", "failed", "reverted", undefined] as const) {
    const record = decodeRecord(encodeRecord(WEB, [{ ...restart(), outcome }]));
    assert.ok(!("code" in record) && record.restarts[0]?.outcome === outcome);
  }
});
