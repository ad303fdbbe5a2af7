import assert from "node:assert/strict";
import { test } from "node:test";
import { LineLog } from "#test/fakes/clock.ts";
import { fc } from "#test/property.ts";
import { PodMemory } from "./pod-memory.ts";
import { MAX_HOSTS_TEXT, type PodFacts, podFacts } from "./pods.ts";

function pod(uid: string, more: Partial<PodFacts> = {}): PodFacts {
  return { ...podFacts({ metadata: { namespace: "shop", name: uid, uid } }), ...more };
}

function rig(limit?: number) {
  const log = new LineLog();
  const clock = { now: 0 };
  return { log, clock, memory: new PodMemory({ log, now: () => clock.now, ...(limit !== undefined && { limit }) }) };
}

/** A string that shares no memory with an equal one. */
const copy = (text: string) => Buffer.from(text).toString();

test("equal texts of several pods are kept once, and so are equal owners", () => {
  const { memory } = rig();
  const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "web-1" };
  const facts = { owner, hosts: "a".repeat(100), revision: "r", node: "n", onChange: "live", restartedAt: "t" };
  const first = memory.keep(pod("1", facts));
  const second = memory.keep(pod("2", JSON.parse(JSON.stringify(facts))));
  assert.deepEqual([first, second], [pod("1", facts), pod("2", facts)]);
  assert.equal(first?.owner, second?.owner);
});

test("a selection is charged once, however many pods share it, until the last of them is gone", () => {
  const { memory } = rig();
  const text = "x".repeat(MAX_HOSTS_TEXT);
  memory.keep(pod("1", { hosts: text }));
  const one = memory.bytes;
  assert.ok(one > 2 * MAX_HOSTS_TEXT);
  memory.keep(pod("2", { hosts: copy(text) }));
  assert.ok(memory.bytes - one < 1_000, `${memory.bytes} ${one}`);
  memory.release(pod("1"));
  assert.equal(memory.bytes, one);
  memory.release(pod("2"));
  assert.equal(memory.bytes, 0);
});

test("pods that do not fit are left out with a reason and one log line; earlier pods stay", () => {
  const { memory, log, clock } = rig(10_000);
  const kept = Array.from({ length: 100 }, (_, index) => memory.keep(pod(`${index}`))).filter(Boolean);
  assert.ok(kept.length > 10 && kept.length < 30, `${kept.length}`);
  assert.equal(kept.at(-1)?.uid, `${kept.length - 1}`);
  assert.match(memory.shed?.text ?? "", new RegExp(`^${100 - kept.length} pods are not observed`));
  assert.deepEqual(
    log.lines.map(({ level, fields }) => [level, fields]),
    [["warn", { code: "pods-shed", limit: 10_000 }]],
  );
  memory.release(pod("0"));
  assert.ok(memory.keep(pod("99")));
  assert.match(memory.shed?.text ?? "", new RegExp(`^${99 - kept.length} pods are not observed`));
  // The deletion of a pod that was left out is not reported. The pod is missing when everything is listed again.
  clock.now += 65 * 60_000;
  assert.equal(memory.shed, undefined);
});

test("a namespace whose pods have different selections takes at most an eighth, and leaves room for others", () => {
  const { memory } = rig(8_000_000);
  const hosts = (index: number) => `${index}`.padEnd(MAX_HOSTS_TEXT, "x");
  const own = Array.from({ length: 200 }, (_, index) => memory.keep(pod(`h${index}`, { hosts: hosts(index) })));
  assert.equal(own.filter(Boolean).length, 30);
  assert.ok(memory.keep(pod("other", { namespace: "other", hosts: hosts(1_000) })));
  assert.ok(memory.keep(pod("plain")), "pods of that namespace without a selection still fit");
});

test("a changed pod is charged for its current facts", () => {
  const { memory } = rig();
  memory.keep(pod("1"));
  const { bytes } = memory;
  memory.keep(pod("1", { hosts: "x".repeat(1_000) }));
  assert.equal(memory.bytes, bytes + 2_000);
  memory.keep(pod("1"));
  assert.equal(memory.bytes, bytes);
});

test("the default limit is a share of the heap limit of this process", () => {
  const { memory } = rig();
  assert.ok(memory.keep(pod("1", { hosts: "x".repeat(MAX_HOSTS_TEXT) })));
});

test("property: charges never exceed the limit, and are 0 when all pods are gone", () => {
  const step = fc.record({
    uid: fc.constantFrom("1", "2", "3", "4"),
    namespace: fc.constantFrom("a", "b"),
    hosts: fc.option(fc.constantFrom("x".repeat(100), "y".repeat(300), "z".repeat(301)), { nil: undefined }),
    gone: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      const limit = 5_000;
      const { memory } = rig(limit);
      for (const { uid, gone, ...facts } of steps) {
        if (gone) memory.release(pod(uid));
        else memory.keep(pod(uid, facts));
        assert.ok(memory.bytes <= limit, `${memory.bytes}`);
      }
      for (const uid of ["1", "2", "3", "4"]) memory.release(pod(uid));
      assert.equal(memory.bytes, 0);
    }),
  );
});
