import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import type { KubeClient } from "#lib/kube/client.ts";
import { createEventRecorder } from "#lib/kube/events.ts";
import { KubeStatusError } from "#lib/kube/status.ts";
import { FakeClock, LineLog } from "#test/fakes/clock.ts";
import { ContradictionEvents } from "./contradiction-events.ts";
import type { HeaderContradiction } from "./contradictions.ts";

interface SentEvent {
  readonly metadata: { readonly name?: string; readonly namespace: string };
  readonly type: string;
  readonly reason: string;
  readonly note: string;
  readonly regarding: object;
}

/** The Events of a leader, and an API server that stores them. The clock only moves when the test moves it. */
function eventsRig() {
  const clock = new FakeClock();
  const kept = new Map<string, SentEvent>();
  const sent: SentEvent[] = [];
  const broken = new Set<string>();
  const lookups: string[] = [];
  const client = {
    get: async (path: string, { fieldSelector }: { fieldSelector: string }) => {
      const key = `${path.split("/")[4]}/${fieldSelector.replace("metadata.name=", "")}`;
      lookups.push(key);
      if (broken.has(key)) throw new KubeStatusError("GET", 503, { message: "away" });
      return { items: key === "edge/gone" ? [] : [{ metadata: { uid: `uid of ${key}` } }] };
    },
    create: async (_path: string, event: SentEvent) => {
      const { name = "" } = event.metadata;
      if (kept.has(name)) throw new KubeStatusError("POST", 409, { message: "exists" });
      kept.set(name, event);
      sent.push(event);
    },
  } as unknown as KubeClient;
  const now = () => clock.now();
  const lead = () => {
    const end = new AbortController();
    const events = createEventRecorder({ client, component: "c", instance: "i", namespace: "own", now });
    const startTimer = (callback: () => void, ms: number) => clock.after(ms, callback);
    const deps = { events, client, log: new LineLog(), wallClock: now, now, startTimer };
    return { reporter: new ContradictionEvents(deps, end.signal), stop: () => end.abort() };
  };
  const pass = async (seconds: number) => {
    for (let second = 0; second < seconds; second++) {
      await clock.pass(1_000);
      for (let part = 0; part < 5; part++) await turn();
    }
  };
  const found = (name: string, seen: string, at = clock.now()): HeaderContradiction => ({
    target: `edge-${name}`,
    port: 443,
    service: { namespace: "edge", name },
    at: new Date(at).toISOString(),
    reason: { code: "header-contradicted", text: `Service edge/${name}, port 443: ${seen} at ${at}` },
    change: seen,
  });
  return { clock, sent, broken, lookups, lead, pass, found };
}

const notes = ({ sent }: ReturnType<typeof eventsRig>) => sent.map(({ note }) => note.replace(/ at \d+$/, ""));

describe("a contradiction", () => {
  it("becomes a warning on its Service once it has lasted for 10 s", async () => {
    const rig = eventsRig();
    const { reporter } = rig.lead();
    const found = rig.found("web", "it demands v1");
    reporter.check([found]);
    await rig.pass(9);
    assert.equal(rig.sent.length, 0);
    reporter.check([found]);
    await rig.pass(2);
    const [{ type, reason, note, regarding, metadata }] = rig.sent as [SentEvent];
    assert.deepEqual(
      [type, reason, note, metadata.namespace],
      ["Warning", "HeaderContradicted", found.reason.text, "edge"],
    );
    const uid = "uid of edge/web";
    assert.deepEqual(regarding, { apiVersion: "v1", kind: "Service", namespace: "edge", name: "web", uid });
  });

  it("is not repeated while it lasts, but is reported again after a change or a return", async () => {
    const rig = eventsRig();
    const { reporter } = rig.lead();
    const steps = ["a", "a", "b", undefined, "b"];
    for (const seen of steps) {
      for (let minute = 0; minute < 30; minute++) {
        reporter.check(seen === undefined ? [] : [rig.found("web", seen)]);
        await rig.pass(60);
      }
    }
    assert.deepEqual(
      notes(rig),
      ["a", "b", "b"].map((seen) => `Service edge/web, port 443: ${seen}`),
    );
  });

  it("is not reported if it ends within 10 s", async () => {
    const rig = eventsRig();
    const { reporter } = rig.lead();
    reporter.check([rig.found("web", "a")]);
    await rig.pass(5);
    reporter.check([]);
    await rig.pass(60);
    assert.deepEqual(rig.sent, []);
  });

  it("is retried if its Service cannot be read, delays no other, and is dropped if the Service is gone", async () => {
    const rig = eventsRig();
    const { reporter } = rig.lead();
    rig.broken.add("edge/a");
    reporter.check(["a", "b", "gone"].map((name) => rig.found(name, "x")));
    await rig.pass(20);
    assert.deepEqual(notes(rig), ["Service edge/b, port 443: x"]);
    assert.deepEqual(rig.lookups, ["edge/a", "edge/b", "edge/gone"]);
    rig.broken.clear();
    await rig.pass(60);
    assert.deepEqual(
      notes(rig),
      ["b", "a"].map((name) => `Service edge/${name}, port 443: x`),
    );
  });

  it("waits for the budget of its namespace", async () => {
    const rig = eventsRig();
    const { reporter } = rig.lead();
    const all = Array.from({ length: 200 }, (_, index) => rig.found(`n${index}`, "x"));
    reporter.check(all);
    await rig.pass(15);
    assert.ok(rig.sent.length > 0 && rig.sent.length < 100, String(rig.sent.length));
    await rig.pass(3_600);
    assert.equal(new Set(notes(rig)).size, 200);
    assert.equal(rig.sent.length, 200);
  });
});

describe("a new leader", () => {
  it("reports new and young contradictions, except those whose Event the API server still has", async () => {
    const rig = eventsRig();
    const MINUTE = 60_000;
    const first = rig.lead();
    const young = rig.found("young", "x", rig.clock.now() - 9 * MINUTE);
    first.reporter.check([young]);
    await rig.pass(20);
    assert.deepEqual(notes(rig), ["Service edge/young, port 443: x"]);
    first.stop();
    const old = rig.found("old", "x", rig.clock.now() - 10 * MINUTE);
    const { reporter } = rig.lead();
    reporter.check([young, old]);
    await rig.pass(20);
    reporter.check([young, old, rig.found("new", "x", rig.clock.now() - 30 * MINUTE)]);
    await rig.pass(20);
    assert.deepEqual(
      notes(rig),
      ["young", "new"].map((name) => `Service edge/${name}, port 443: x`),
    );
  });

  it("writes nothing once its term is over", async () => {
    const rig = eventsRig();
    const { reporter, stop } = rig.lead();
    reporter.check([rig.found("web", "a")]);
    await rig.pass(5);
    stop();
    reporter.check([rig.found("web", "b")]);
    await rig.pass(60);
    assert.deepEqual([rig.sent, rig.clock.pending], [[], 0]);
  });
});
