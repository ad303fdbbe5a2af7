import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { LineLog } from "#test/fakes/clock.ts";
import { type Contender, contend, pass, seconds, settle, useContenders } from "#test/fakes/contenders.ts";
import { FakeLeases } from "#test/fakes/leases.ts";
import type { ElectionOptions, LeaderTerm } from "./lease-term.ts";

useContenders();

type LeaseSpec = NonNullable<FakeLeases["lease"]>["spec"];

describe("a term", () => {
  /** Returns a leader, and the function that confirms its term. */
  async function leading(leases: FakeLeases) {
    let term: LeaderTerm | undefined;
    const a = contend(leases, "a", {
      onStartedLeading: (_signal, own) => {
        term = own;
      },
    });
    await settle();
    return { a, confirm: async () => await term?.confirm() };
  }

  it("is confirmed as long as no other process has held the Lease, whatever else is written to it", async () => {
    const leases = new FakeLeases();
    const { confirm } = await leading(leases);
    await confirm();
    await pass(5);
    leases.lease = { ...leases.lease!, metadata: { ...leases.lease!.metadata, resourceVersion: "x" } };
    await confirm();
  });

  for (const [what, change] of [
    ["another holds the Lease", (spec: LeaseSpec) => ({ ...spec, holderIdentity: "b", leaseTransitions: 2 })],
    [
      "another has held it and released it",
      (spec: LeaseSpec) => ({ ...spec, holderIdentity: "", leaseTransitions: 2 }),
    ],
    ["this process has acquired it again", (spec: LeaseSpec) => ({ ...spec, leaseTransitions: 3 })],
  ] as const) {
    it(`is over once ${what}, even if this process has not noticed, and ends at the next renewal`, async () => {
      const leases = new FakeLeases();
      const { a, confirm } = await leading(leases);
      const { spec, metadata } = leases.lease!;
      leases.lease = { ...leases.lease!, metadata: { ...metadata, resourceVersion: "x" }, spec: change(spec) };
      assert.equal(a.election.leading, true);
      await assert.rejects(confirm(), { code: "term-over" });
      await pass(2.1);
      assert.equal(a.log.at(-1), "lease-lost@2");
      await assert.rejects(confirm(), { code: "term-over" });
    });
  }

  it("is over without a request once it has ended here; a missing answer is not a decision", async () => {
    const leases = new FakeLeases();
    const { a, confirm } = await leading(leases);
    a.cut();
    const asked = assert.rejects(confirm(), /no answer/);
    await pass(11);
    await asked;
    a.heal();
    assert.equal(a.log.at(-1), "renew-deadline@10");
    await assert.rejects(confirm(), { code: "term-over" });
  });
});

describe("a contender that does not lead", () => {
  /** The times at which it reads the Lease. Jitter is maximal unless the test sets it. */
  function watched(leases: FakeLeases, options: Partial<ElectionOptions> = {}) {
    const { client, cut, heal } = leases.client("b");
    const reads: number[] = [];
    const log = new LineLog();
    const get: typeof client.get = (...call) => {
      reads.push(seconds());
      return client.get(...call);
    };
    const { election } = contend(leases, "b", { client: { ...client, get }, random: () => 1, log, ...options });
    return { reads, log, cut, heal, election, lines: () => log.lines.map(({ level, fields }) => [level, fields]) };
  }

  it("reads the Lease every two seconds, up to a fifth later, and logs each new leader once", async () => {
    const leases = new FakeLeases();
    const a = contend(leases, "a");
    await settle();
    const b = watched(leases);
    await pass(12);
    assert.deepEqual(b.reads, [0, 2.4, 4.8, 7.2, 9.6, 12]);
    assert.deepEqual(b.lines(), [["info", { leader: "a" }]]);
    await a.election.stop();
    await pass(3);
    assert.deepEqual(b.lines().slice(1), [["info", { identity: "b" }]]);
  });

  it("logs once that there is no response, and again only after a response", async () => {
    const leases = new FakeLeases();
    const b = watched(leases, { random: () => 0 });
    const failures = () => b.log.lines.filter(({ level }) => level === "warn").length;
    b.cut();
    await pass(30);
    assert.deepEqual([b.reads.slice(0, 3), failures()], [[0, 7, 14], 1]);
    b.heal();
    await pass(10);
    assert.equal(b.election.leading, true);
    b.cut();
    await pass(40);
    assert.equal(b.log.messages.filter((message) => message.includes("no response")).length, 2);
    b.heal();
  });
});

describe("the end of a term", () => {
  it("is reported with its reason and logged, and an error of the callback is logged", async () => {
    const leases = new FakeLeases();
    const log = new LineLog();
    const reasons: unknown[] = [];
    contend(leases, "a", {
      log,
      onStartedLeading: async () => {
        throw new Error("cannot work");
      },
      onStoppedLeading: (reason) => {
        reasons.push(reason);
        throw new Error("cannot stop");
      },
    });
    await pass(1);
    const reason = { code: "work-failed", text: "the leader's work failed: cannot work" };
    assert.deepEqual(reasons, [reason]);
    assert.deepEqual(
      log.lines.map(({ level, fields }) => [level, fields]),
      [
        ["info", { identity: "a" }],
        ["error", { error: "cannot work" }],
        ["info", { code: reason.code, reason: reason.text }],
        ["error", { error: "cannot stop" }],
      ],
    );
  });

  for (const [what, act, reason] of [
    ["stop", (a: Contender) => void a.election.stop(), { code: "stopped", text: "this process is stopping" }],
    [
      "a Lease that cannot be renewed",
      (a: Contender) => a.cut(),
      { code: "renew-deadline", text: "the Lease could not be renewed for 10 s" },
    ],
  ] as const) {
    it(`by ${what} has the code ${reason.code}`, async () => {
      const reasons: unknown[] = [];
      const a = contend(new FakeLeases(), "a", { onStoppedLeading: (why) => reasons.push(why) });
      await pass(1);
      act(a);
      await pass(12);
      assert.deepEqual(reasons, [reason]);
    });
  }

  it("releases the Lease with a duration of one second, so that nobody waits longer", async () => {
    const leases = new FakeLeases();
    const a = contend(leases, "a");
    await pass(3);
    await a.election.stop();
    assert.deepEqual(leases.lease?.spec, {
      holderIdentity: "",
      leaseDurationSeconds: 1,
      acquireTime: "2023-11-14T22:13:20.000000Z",
      renewTime: "2023-11-14T22:13:23.000000Z",
      leaseTransitions: 1,
    });
  });
});
