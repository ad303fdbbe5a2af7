import assert from "node:assert/strict";
import { Agent } from "node:https";
import { test } from "node:test";
import { type Access, cachedCredentials, sameTls } from "./credentials.ts";

const accessOf = (token: string, more: Partial<Access> = {}): Access => ({
  server: new URL("https://10.96.0.1"),
  headers: { authorization: token },
  tls: { ca: "one" },
  ...more,
});

function start() {
  const rig = { now: 1_000_000, next: accessOf("a") as Access | Error, loads: [] as boolean[] };
  const credentials = cachedCredentials(
    async (rejected) => {
      rig.loads.push(rejected);
      if (rig.next instanceof Error) throw rig.next;
      return rig.next;
    },
    () => rig.now,
  );
  return { rig, credentials };
}

test("access is loaded once a minute", async () => {
  const { rig, credentials } = start();
  const first = await credentials.current();
  assert.equal(first, rig.next);
  rig.next = accessOf("b");
  rig.now += 59_999;
  assert.equal(await credentials.current(), first);
  rig.now += 1;
  assert.equal(await credentials.current(), rig.next);
  rig.now += 59_999;
  await credentials.current();
  assert.deepEqual(rig.loads, [false, false]);
});

test("equal access stays the same object, which keeps its connections; different access replaces it", async () => {
  const { rig, credentials } = start();
  let known = await credentials.current();
  const agent = new Agent();
  for (const [next, isSame] of [
    [accessOf("a"), true],
    [accessOf("a", { server: new URL("https://10.96.0.2") }), false],
    [accessOf("a"), false],
    [accessOf("b"), false],
    [accessOf("b", { tls: { ca: "two" } }), false],
    [accessOf("b", { tls: { ca: "two" }, agent }), false],
    [accessOf("b", { tls: { ca: "two" }, agent: new Agent() }), true],
    [accessOf("b", { tls: { ca: "two" } }), false],
  ] as const) {
    rig.next = next;
    rig.now += 60_000;
    const loaded = await credentials.current();
    assert.equal(loaded, isSame ? known : next);
    known = loaded;
  }
  agent.destroy();
});

test("a failed load throws if there is no access yet, and otherwise keeps the last access for a minute", async () => {
  const { rig, credentials } = start();
  rig.next = new Error("no file");
  await assert.rejects(credentials.current(), rig.next);
  rig.next = accessOf("a");
  const known = await credentials.current();
  rig.next = new Error("no file");
  rig.now += 60_000;
  assert.equal(await credentials.current(), known);
  rig.now += 59_999;
  assert.equal(await credentials.current(), known);
  assert.equal(rig.loads.length, 3);
  rig.now += 1;
  await credentials.current();
  assert.equal(rig.loads.length, 4);
});

test("concurrent callers share one load", async () => {
  const { rig, credentials } = start();
  const [one, two] = await Promise.all([credentials.current(), credentials.current()]);
  assert.deepEqual([one === two, rig.loads], [true, [false]]);
});

test("rejected access is loaded again at most once in five seconds, and not if there is newer access", async () => {
  const { rig, credentials } = start();
  const first = await credentials.current();
  rig.next = accessOf("b");
  const second = await credentials.renew(first);
  assert.equal(second, rig.next);
  assert.equal(await credentials.renew(first), second, "there is newer");
  rig.next = accessOf("c");
  rig.now += 4_999;
  assert.equal(await credentials.renew(second), second);
  rig.now += 1;
  assert.equal(await credentials.renew(second), rig.next);
  assert.deepEqual(rig.loads, [false, true, true]);
});

test("connections can be shared if all TLS options are equal", () => {
  assert.equal(sameTls({ ca: "a", cert: "b" }, { ca: "a", cert: "b" }), true);
  assert.equal(sameTls({ ca: "a" }, { ca: "a", rejectUnauthorized: false }), false);
});
