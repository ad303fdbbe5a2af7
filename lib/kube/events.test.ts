import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { LineLog } from "#test/fakes/clock.ts";
import type { KubeClient } from "./client.ts";
import { createEventRecorder, type EventRecord, eventReason } from "./events.ts";
import { KubeStatusError } from "./status.ts";

interface Sent {
  path: string;
  event: { metadata: object; note: string; reason: string; regarding: object; [key: string]: unknown };
}

function recorder(options: { fail?: () => boolean; exists?: (name: string) => boolean } = {}) {
  const sent: Sent[] = [];
  const clock = { now: 0 };
  const client = {
    create: async (path: string, event: object) => {
      if (options.fail?.()) throw new Error("refused");
      const { name } = (event as { metadata: { name?: string } }).metadata;
      if (name !== undefined && options.exists?.(name)) throw new KubeStatusError("POST", 409, { message: "exists" });
      sent.push({ path, event: event as Sent["event"] });
    },
  } as Pick<KubeClient, "create">;
  const log = new LineLog();
  const events = createEventRecorder({
    client,
    log,
    component: "controller",
    instance: "controller-abc",
    namespace: "own",
    now: () => clock.now,
  });
  const record = async (change: Partial<EventRecord> = {}) => {
    events.record({ ...held, ...change });
    await events.flush();
  };
  return { sent, clock, events, record, log };
}

const regarding = { apiVersion: "v1", kind: "ConfigMap", name: "ours" };
const held: EventRecord = {
  type: "Warning",
  reason: "RemovalHeldBack",
  action: "PublishMap",
  note: "6 of 10 names would go",
  regarding,
};

describe("an Event", () => {
  it("has the fields that events.k8s.io/v1 requires", async () => {
    const { sent, record } = recorder();
    await record();
    const [{ path, event }] = sent as [Sent];
    assert.equal(path, "/apis/events.k8s.io/v1/namespaces/own/events");
    const { eventTime, ...rest } = event;
    assert.match(String(eventTime), /\.\d{6}Z$/);
    assert.deepEqual(rest, {
      apiVersion: "events.k8s.io/v1",
      kind: "Event",
      metadata: { generateName: "switchback-", namespace: "own" },
      type: "Warning",
      reason: "RemovalHeldBack",
      action: "PublishMap",
      note: "6 of 10 names would go",
      reportingController: "switchback.dev/controller",
      reportingInstance: "controller-abc",
      regarding: { ...regarding, namespace: "own" },
    });
  });

  it("is created in the namespace of its object, or in `default` for a cluster-scoped one", async () => {
    const { sent, record } = recorder();
    await record({ regarding: { ...regarding, namespace: "shop" } });
    await record({ regarding: { apiVersion: "v1", kind: "Namespace", name: "shop", namespace: "" } });
    assert.deepEqual(
      sent.map(({ path, event }) => [path.split("/")[5], event.regarding]),
      [
        ["shop", { ...regarding, namespace: "shop" }],
        ["default", { apiVersion: "v1", kind: "Namespace", name: "shop" }],
      ],
    );
  });

  it("has no control characters and at most 1,024 bytes, in whole characters", async () => {
    const { sent, record } = recorder();
    await record({ note: `bad\u001b[31m\nname ${"é".repeat(600)}` });
    const note = sent[0]!.event.note;
    assert.match(note, /^bad\?\[31m\?name é+\.\.\.$/);
    assert.ok(Buffer.byteLength(note) <= 1024 && Buffer.byteLength(note) >= 1020, String(Buffer.byteLength(note)));
  });

  it("formats a note as a sentence, but does not change a name at its beginning", async () => {
    const { sent, record } = recorder();
    for (const note of ["held back until noon", "shop.example.com is gone", "shop/web is stuck", "a b"])
      await record({ note });
    assert.deepEqual(
      sent.map(({ event }) => event.note),
      ["Held back until noon", "shop.example.com is gone", "shop/web is stuck", "A b"],
    );
  });
});

describe("an Event's limits", () => {
  it("are 128 bytes for its reason, its action and the pod's name, and 1,024 with the count for its note", async () => {
    const { sent, record, clock } = recorder();
    const long = { reason: "R".repeat(128), action: "A".repeat(129), note: "n".repeat(1_024) };
    await record(long);
    await record(long);
    clock.now = 600_000;
    await record(long);
    const suffix = " (1 more times since it was last reported)";
    assert.deepEqual(
      sent.map(({ event: { reason, action, note } }) => ({ reason, action, note })),
      [
        { ...long, action: `${"A".repeat(125)}...` },
        { ...long, action: `${"A".repeat(125)}...`, note: `${"n".repeat(1_024 - suffix.length - 3)}...${suffix}` },
      ],
    );
  });

  it("a code is a reason in CamelCase", () => {
    assert.deepEqual(["front-address-lost", "paused", "a-b2c"].map(eventReason), [
      "FrontAddressLost",
      "Paused",
      "AB2c",
    ]);
  });
});

describe("repetition", () => {
  it("is not repeated within ten minutes; the next one contains the count", async () => {
    const { sent, clock, record, events } = recorder();
    for (const now of [0, 1, 599_999]) {
      clock.now = now;
      await record();
    }
    assert.deepEqual([sent.length, events.stats.repeated], [1, 2]);
    clock.now = 600_000;
    await record();
    assert.equal(sent[1]?.event.note, "6 of 10 names would go (2 more times since it was last reported)");
    clock.now = 1_200_000;
    await record();
    assert.equal(sent[2]?.event.note, "6 of 10 names would go");
  });

  it("is sent if its text or object is different", async () => {
    const { sent, record } = recorder();
    await record();
    await record({ note: "7 of 10 names would go" });
    await record({ regarding: { ...regarding, uid: "other" } });
    assert.equal(sent.length, 3);
  });
});

describe("an Event of a state", () => {
  const nameOf = (event: Sent["event"] | undefined) =>
    (event?.metadata as { name?: string } | undefined)?.name ?? "none";

  it("has the same name in every process, so the API server refuses it if an earlier process wrote it", async () => {
    const first = recorder();
    await first.record({ once: true });
    const name = nameOf(first.sent[0]?.event);
    assert.match(name, /^switchback-[0-9a-f]{12}$/);
    const next = recorder({ exists: (each) => each === name });
    await next.record({ once: true });
    assert.deepEqual([next.sent.length, next.events.stats.repeated, next.events.stats.failed], [0, 1, 0]);
    await next.record({ once: true, note: "7 of 10 names would go" });
    await next.record({ once: true, regarding: { ...regarding, uid: "another" } });
    assert.equal(new Set([name, ...next.sent.map(({ event }) => nameOf(event))]).size, 3);
  });

  it("is written again by the same process when it has changed and the window is over", async () => {
    const { sent, clock, record } = recorder({ exists: () => sent.length > 0 });
    await record({ once: true });
    await record({ once: true });
    clock.now = 600_000;
    await record({ once: true });
    assert.deepEqual(
      sent.map(({ event }) => event.metadata),
      [
        { name: nameOf(sent[0]?.event), namespace: "own" },
        { generateName: "switchback-", namespace: "own" },
      ],
    );
  });
});

describe("too many Events", () => {
  it("are dropped and counted; the rate limit recovers later", async () => {
    const { sent, clock, record, events } = recorder();
    for (let index = 0; index < 40; index++) await record({ note: `note ${index}` });
    assert.deepEqual([sent.length, events.stats.dropped], [25, 15]);
    clock.now = 10_000;
    for (let index = 40; index < 50; index++) await record({ note: `note ${index}` });
    assert.deepEqual([sent.length, events.stats.dropped], [27, 23]);
  });

  it("of one namespace do not use another namespace's budget", async () => {
    const { sent, record } = recorder();
    for (let index = 0; index < 40; index++) await record({ note: `note ${index}` });
    await record({ regarding: { ...regarding, namespace: "shop" } });
    assert.equal(sent.at(-1)?.path.split("/")[5], "shop");
  });

  it("are remembered only up to a limit", async () => {
    const { sent, clock, record } = recorder();
    await record();
    await record();
    for (let index = 0; index < 1_000; index++) {
      clock.now += 5_000;
      await record({ note: `note ${index}` });
    }
    await record();
    assert.equal(sent.at(-1)?.event.note, held.note, "the repetitions are forgotten");
  });
});

describe("a refusal", () => {
  it("is counted, never thrown, and does not count as sent", async () => {
    let failing = true;
    const { sent, record, events, log } = recorder({ fail: () => failing });
    await record();
    assert.deepEqual(events.stats, { sent: 0, repeated: 0, dropped: 0, failed: 1 });
    const first = { level: "debug", fields: { reason: "RemovalHeldBack", error: "refused" } };
    assert.deepEqual(
      log.lines.map(({ level, fields }) => ({ level, fields })),
      [first],
    );
    failing = false;
    await record();
    assert.deepEqual([sent.length, events.stats.sent], [1, 1]);
  });

  it("an invalid record does not throw either", () => {
    const { events, log } = recorder();
    events.record({ ...held, regarding: undefined as unknown as EventRecord["regarding"] });
    events.record(undefined as unknown as EventRecord);
    assert.deepEqual(events.stats, { sent: 0, repeated: 0, dropped: 0, failed: 2 });
    assert.deepEqual(
      log.lines.map(({ level, message }) => [level, message]),
      [
        ["debug", "an Event could not be built"],
        ["debug", "an Event could not be built"],
      ],
    );
  });
});
