import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it, mock } from "node:test";
import { silentLogger } from "#lib/telemetry/log.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { FakeLeases } from "#test/fakes/leases.ts";
import { type Election, type ElectionOptions, type LeaderTerm, runElection } from "./lease.ts";

/** Fake time advances in steps of 100 ms; between two steps all pending work runs. */
let origin: number;
const seconds = () => (Date.now() - origin) / 1000;

beforeEach(() => {
  mock.timers.enable({ apis: ["setTimeout", "Date"], now: 1_700_000_000_000 });
  origin = Date.now();
});

let contenders: Contender[] = [];
afterEach(async () => {
  for (const { heal } of contenders) heal();
  const stopping = Promise.all(contenders.map(({ election }) => election.stop()));
  await pass(30);
  await stopping;
  contenders = [];
  mock.timers.reset();
});

async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise((next) => setImmediate(next));
}

async function pass(duration: number): Promise<void> {
  await settle();
  for (let step = 0; step < duration * 10; step++) {
    mock.timers.tick(100);
    await settle();
  }
}

interface Contender {
  election: Election;
  cut(): void;
  heal(): void;
  delayAnswers(ms: number): void;
  /** `started@0`, `aborted@12.1`, `renew-deadline@12.1`. */
  log: string[];
}

function contend(leases: FakeLeases, identity: string, options: Partial<ElectionOptions> = {}): Contender {
  const { client, cut, heal, delayAnswers } = leases.client(identity);
  const log: string[] = [];
  const election = runElection({
    client,
    namespace: "own",
    name: "leader",
    identity,
    onStartedLeading: (signal) => {
      log.push(`started@${seconds()}`);
      signal.addEventListener("abort", () => log.push(`aborted@${seconds()}`));
    },
    onStoppedLeading: ({ code }) => log.push(`${code}@${seconds()}`),
    log: silentLogger,
    now: () => Date.now(),
    random: () => 0,
    ...options,
  });
  const contender = { election, cut, heal, delayAnswers, log };
  contenders.push(contender);
  return contender;
}

describe("an election", () => {
  it("creates the Lease, leads at once, and renews every two seconds", async () => {
    const leases = new FakeLeases();
    const { election, log } = contend(leases, "a");
    await settle();
    assert.deepEqual([log, election.leading, election.holder], [["started@0"], true, "a"]);
    await pass(60);
    assert.equal(leases.writes.length, 31);
    assert.deepEqual(log, ["started@0"]);
    const { spec } = leases.lease!;
    assert.deepEqual([spec?.leaseDurationSeconds, spec?.leaseTransitions], [15, 1]);
    assert.equal(spec?.renewTime, "2023-11-14T22:14:20.000000Z");
    assert.equal(spec?.acquireTime, "2023-11-14T22:13:20.000000Z");
  });

  it("has one leader", async () => {
    const leases = new FakeLeases();
    const all = ["a", "b", "c"].map((identity) => contend(leases, identity));
    await settle();
    await pass(40);
    assert.equal(all.filter(({ election }) => election.leading).length, 1);
    assert.equal(all.flatMap(({ log }) => log).length, 1);
    assert.deepEqual(
      all.map(({ election }) => election.holder),
      ["a", "a", "a"],
    );
  });

  it("releases the Lease on stop, so that the next leader starts soon", async () => {
    const leases = new FakeLeases();
    const a = contend(leases, "a");
    const b = contend(leases, "b");
    await pass(5);
    await a.election.stop();
    assert.deepEqual(a.log, ["started@0", "aborted@5", "stopped@5"]);
    assert.equal(leases.lease?.spec?.holderIdentity, "");
    await pass(2);
    assert.equal(b.election.leading, true);
    assert.equal(leases.lease?.spec?.leaseTransitions, 2);
  });

  it("releases the Lease only after the work has ended", async () => {
    const leases = new FakeLeases();
    const a = contend(leases, "a", {
      onStartedLeading: async (signal) => {
        await new Promise((resolve) => signal.addEventListener("abort", () => setTimeout(resolve, 3_000)));
      },
    });
    await pass(1);
    const stopped = a.election.stop();
    await pass(2.9);
    assert.equal(leases.lease?.spec?.holderIdentity, "a");
    await pass(0.2);
    await stopped;
    assert.equal(leases.lease?.spec?.holderIdentity, "");
  });

  it("does not release the Lease if the work does not end in time", async () => {
    const leases = new FakeLeases();
    const a = contend(leases, "a", { onStartedLeading: () => new Promise(() => {}) });
    await pass(1);
    const stopped = a.election.stop();
    await pass(11);
    await stopped;
    assert.equal(leases.lease?.spec?.holderIdentity, "a", "it expires");
  });

  it("takes over from a dead leader when its Lease has expired by the local clock", async () => {
    const leases = new FakeLeases();
    await leases.client("dead").client.apply("", { metadata: {}, spec: {} }, { fieldManager: "x" });
    // Its clock is years ahead: the time that it wrote does not matter.
    leases.lease!.spec = { holderIdentity: "dead", renewTime: "2099-01-01T00:00:00.000000Z", leaseDurationSeconds: 15 };
    const b = contend(leases, "b");
    await settle();
    assert.equal(b.election.holder, "dead");
    await pass(14.9);
    assert.deepEqual(b.log, []);
    await pass(2);
    assert.deepEqual(b.log, ["started@16"]);
  });

  it("waits for the duration in the holder's Lease", async () => {
    const leases = new FakeLeases();
    await leases.client("dead").client.apply("", { metadata: {}, spec: {} }, { fieldManager: "x" });
    leases.lease!.spec = { holderIdentity: "dead", leaseDurationSeconds: 40 };
    const b = contend(leases, "b");
    await pass(39.9);
    assert.deepEqual(b.log, []);
    await pass(2);
    assert.deepEqual(b.log, ["started@40"]);
  });
});

describe("a leader that cannot renew", () => {
  it("has stopped before another can lead", async () => {
    const leases = new FakeLeases();
    const a = contend(leases, "a");
    const b = contend(leases, "b");
    await pass(20.5);
    a.cut();
    await pass(30);
    // The last renewal was sent at 20.
    assert.deepEqual(a.log, ["started@0", "aborted@30", "renew-deadline@30"]);
    assert.equal(a.election.leading, false);
    const [started] = b.log;
    assert.match(started!, /^started@3[5-7]/);
  });

  it("measures from the time its last renewal was sent, not answered", async () => {
    const leases = new FakeLeases();
    const a = contend(leases, "a");
    await pass(1);
    a.delayAnswers(3_000);
    await pass(3);
    // Sent at 2, answered at 5; what is sent after that is not answered.
    a.cut();
    await pass(10);
    assert.deepEqual(a.log, ["started@0", "aborted@12", "renew-deadline@12"]);
  });

  it("does not start a term with a response after the deadline", async () => {
    const leases = new FakeLeases();
    const a = contend(leases, "a");
    a.delayAnswers(11_000);
    await pass(60);
    assert.deepEqual(a.log, []);
  });

  it("stops although its renewal hangs", async () => {
    const leases = new FakeLeases();
    const a = contend(leases, "a");
    await pass(1);
    a.cut();
    await pass(9.1);
    assert.deepEqual(a.log, ["started@0", "aborted@10", "renew-deadline@10"]);
  });

  it("stops leading by its clock, even if no timer has fired", async () => {
    const leases = new FakeLeases();
    let now = 0;
    const a = contend(leases, "a", { now: () => now });
    await settle();
    assert.equal(a.election.leading, true);
    // As after the process was suspended.
    now = 10_000;
    assert.equal(a.election.leading, false);
  });

  it("is not restored by a late response", async () => {
    const leases = new FakeLeases();
    let now = 0;
    const a = contend(leases, "a", { now: () => now });
    await settle();
    now = 10_500;
    await pass(2);
    assert.equal(leases.writes.length, 2, "the renewal was accepted");
    assert.deepEqual(a.log, ["started@0", "aborted@2", "renew-deadline@2"]);
  });

  it("survives a short outage, and leads again after a long one", async () => {
    const leases = new FakeLeases();
    const a = contend(leases, "a");
    await pass(2.5);
    a.cut();
    await pass(4);
    a.heal();
    await pass(20);
    assert.deepEqual(a.log, ["started@0"]);
    a.cut();
    await pass(30);
    a.heal();
    await pass(10);
    assert.equal(a.log.length, 4);
    assert.equal(a.election.leading, true);
  });

  it("does not contend again before its work has ended", async () => {
    const leases = new FakeLeases();
    let terms = 0;
    const a = contend(leases, "a", {
      onStartedLeading: async (signal) => {
        terms++;
        await new Promise((resolve) => signal.addEventListener("abort", () => setTimeout(resolve, 60_000)));
      },
    });
    await pass(1);
    a.cut();
    await pass(15);
    a.heal();
    await pass(50);
    assert.equal(terms, 1);
    await pass(30);
    assert.equal(terms, 2);
  });
});

describe("a Lease that others write to", () => {
  it("taken by another replica ends the term at the next renewal", async () => {
    const leases = new FakeLeases();
    const a = contend(leases, "a");
    await pass(1);
    leases.lease = { ...leases.lease!, metadata: { uid: leases.lease!.metadata.uid!, resourceVersion: "x" } };
    leases.lease.spec = { holderIdentity: "thief", leaseDurationSeconds: 15 };
    await pass(1.1);
    assert.deepEqual(a.log, ["started@0", "aborted@2", "lease-lost@2"]);
    assert.equal(a.election.holder, "thief");
  });

  it("annotated by a user stays held, with the annotation", async () => {
    const leases = new FakeLeases();
    const a = contend(leases, "a");
    await pass(1);
    const metadata = { ...leases.lease!.metadata, resourceVersion: "x", annotations: { note: "hello" } };
    leases.lease = { ...leases.lease!, metadata };
    await pass(10);
    assert.deepEqual(a.log, ["started@0"]);
    assert.deepEqual(leases.lease.metadata.annotations, { note: "hello" });
    assert.ok(leases.writes.length >= 5);
  });

  it("deleted is recreated", async () => {
    const leases = new FakeLeases();
    const a = contend(leases, "a");
    await pass(1);
    leases.lease = undefined;
    await pass(5);
    assert.equal(a.election.leading, true);
    assert.equal((leases.lease as unknown as { spec: { holderIdentity: string } }).spec.holderIdentity, "a");
  });
});

type LeaseSpec = NonNullable<FakeLeases["lease"]>["spec"];

describe("a term", () => {
  /** A leader, and what confirms its term. */
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

  it("is confirmed for as long as nobody else has held the Lease, whatever else is written to it", async () => {
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
    it(`is over once ${what}, although this process has not noticed, and ends at the next renewal`, async () => {
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

  it("is over once it has ended here, without asking; that nobody answers is no answer", async () => {
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

describe("work that fails", () => {
  it("ends the term, releases the Lease, and is retried only after the lease duration", async () => {
    const leases = new FakeLeases();
    const a = contend(leases, "a", {
      onStartedLeading: async () => {
        throw new Error("cannot work");
      },
    });
    await pass(14.5);
    assert.deepEqual(a.log, ["work-failed@0"]);
    assert.deepEqual(leases.writes, ["a: a", "a: nobody"]);
    await pass(5);
    assert.deepEqual(a.log, ["work-failed@0", "work-failed@17"]);
  });

  it("by throwing at once, too; work that returns early does not end the term", async () => {
    const leases = new FakeLeases();
    const a = contend(leases, "a", {
      onStartedLeading: () => {
        throw new Error("cannot work");
      },
    });
    await pass(1);
    assert.deepEqual(a.log, ["work-failed@0"]);
    const b = contend(leases, "b", { onStartedLeading: async () => {} });
    await pass(30);
    assert.equal(b.election.leading, true);
  });
});

describe("a contender that does not lead", () => {
  /** The times at which it reads the Lease, with the largest jitter unless it is another. */
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

  it("logs once that there is no response, and again only after there was one", async () => {
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
  it("is reported with its reason, to the log too, and an error of that is logged", async () => {
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

  it("releases the Lease for a second, so that nobody waits for longer", async () => {
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

describe("times that leave no margin", () => {
  for (const times of [
    { leaseSeconds: 10, renewDeadlineSeconds: 10 },
    { leaseSeconds: 15, renewDeadlineSeconds: 10, retrySeconds: 9 },
    { leaseSeconds: 15, renewDeadlineSeconds: 12, retrySeconds: 10 },
    { retrySeconds: 0 },
  ]) {
    it(`${JSON.stringify(times)} are refused`, () => {
      assert.throws(() => contend(new FakeLeases(), "a", times), { code: "config-invalid" });
    });
  }
});
