import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { LineLog } from "#test/fakes/clock.ts";
import { settled } from "#test/fakes/stopped-time.ts";
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
    await settled();
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
});

it("a code is a reason in CamelCase", () => {
  const codes = ["front-address-lost", "paused", "a-b2c"];
  assert.deepEqual(codes.map(eventReason), ["FrontAddressLost", "Paused", "AB2c"]);
});

describe("a repetition", () => {
  it("has the same name in every process, so the API server refuses it", async () => {
    const first = recorder();
    await first.record();
    const name = nameOf(first.sent[0]?.event);
    const next = recorder({ exists: (each) => each === name });
    await next.record();
    assert.deepEqual([next.sent, next.log.lines], [[], []]);
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
  it("are dropped; the rate limit recovers later", async () => {
    const { sent, clock, record } = recorder();
    for (let index = 0; index < 40; index++) await record({ note: `note ${index}` });
    assert.equal(sent.length, 25);
    clock.now = 10_000;
    for (let index = 40; index < 50; index++) await record({ note: `note ${index}` });
    assert.equal(sent.length, 27);
  });

  it("of one namespace do not use another namespace's budget, and say how long one should wait", async () => {
    const { sent, clock, record, events } = recorder();
    for (let index = 0; index < 40; index++) await record({ note: `note ${index}` });
    await record({ regarding: { ...regarding, namespace: "shop" } });
    assert.equal(sent.at(-1)?.path.split("/")[5], "shop");
    assert.deepEqual(["own", "shop"].map(events.waitMs), [5_000, 0]);
    clock.now = 3_600_000;
    assert.equal(events.waitMs("own"), 0);
  });
});

describe("a refusal", () => {
  it("is logged and never thrown", async () => {
    let failing = true;
    const { sent, record, log } = recorder({ fail: () => failing });
    await record();
    const refused = { level: "debug", fields: { error: "refused" }, message: "an Event could not be written" };
    assert.deepEqual(log.lines, [refused]);
    failing = false;
    await record();
    assert.equal(sent.length, 1);
  });
});
