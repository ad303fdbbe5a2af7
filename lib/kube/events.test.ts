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

const nameOf = (event: Sent["event"] | undefined) => (event?.metadata as { name?: string } | undefined)?.name ?? "none";

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
    const name = nameOf(event);
    assert.match(name, /^switchback-[0-9a-f]{12}$/);
    assert.deepEqual(rest, {
      apiVersion: "events.k8s.io/v1",
      kind: "Event",
      metadata: { name, namespace: "own" },
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
    assert.match(note, /^bad\\u001b\[31m\\u000aname é+\.\.\.$/);
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
  it("are 128 bytes for its reason, its action and the pod's name, and 1,024 for its note", async () => {
    const { sent, record } = recorder();
    const long = { reason: "R".repeat(128), action: "A".repeat(129), note: "n".repeat(1_025) };
    await record(long);
    const { reason, action, note } = sent[0]?.event ?? assert.fail();
    assert.deepEqual(
      { reason, action, note },
      { ...long, action: `${"A".repeat(125)}...`, note: `${"n".repeat(1_021)}...` },
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

describe("a repetition", () => {
  it("has the same name in every process, so the API server refuses it", async () => {
    const first = recorder();
    await first.record();
    const name = nameOf(first.sent[0]?.event);
    const next = recorder({ exists: (each) => each === name });
    await next.record();
    assert.deepEqual([next.sent.length, next.events.stats.repeated, next.events.stats.failed], [0, 1, 0]);
    for (const change of [
      { note: "7 of 10 names would go" },
      { regarding: { ...regarding, uid: "another" } },
      { reason: "Other" },
    ])
      await next.record(change);
    assert.equal(new Set([name, ...next.sent.map(({ event }) => nameOf(event))]).size, 4);
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
});

describe("a refusal", () => {
  it("is counted and never thrown", async () => {
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
