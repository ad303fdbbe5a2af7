import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { contend, LEASE, LeaseCluster, pass, settle, useContenders } from "#test/fakes/contenders.ts";

useContenders();

describe("an election", () => {
  it("creates the Lease, leads at once, and renews every two seconds", async () => {
    const leases = new LeaseCluster();
    const { election, log } = contend(leases, "a");
    await settle();
    assert.deepEqual([log, election.leading], [["started@0"], true]);
    await pass(60);
    assert.equal(leases.holders.length, 31);
    assert.deepEqual(log, ["started@0"]);
    const { spec } = leases.lease!;
    assert.deepEqual([spec?.leaseDurationSeconds, spec?.leaseTransitions], [15, 1]);
    assert.equal(spec?.renewTime, "2023-11-14T22:14:20.000000Z");
    assert.equal(spec?.acquireTime, "2023-11-14T22:13:20.000000Z");
  });

  it("releases the Lease on stop, so that the next leader starts soon", async () => {
    const leases = new LeaseCluster();
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
    const leases = new LeaseCluster();
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
    const leases = new LeaseCluster();
    const a = contend(leases, "a", { onStartedLeading: () => new Promise(() => {}) });
    await pass(1);
    const stopped = a.election.stop();
    await pass(11);
    await stopped;
    assert.equal(leases.lease?.spec?.holderIdentity, "a", "it expires");
  });

  it("takes over from a dead leader when its Lease has expired by the local clock", async () => {
    const leases = new LeaseCluster();
    // The dead leader's clock is years ahead. The time that it wrote does not matter.
    const renewTime = "2099-01-01T00:00:00.000000Z";
    leases.write({ spec: { holderIdentity: "dead", renewTime, leaseDurationSeconds: 15 } });
    const b = contend(leases, "b");
    await pass(14.9);
    assert.deepEqual(b.log, []);
    await pass(2);
    assert.deepEqual(b.log, ["started@16"]);
  });

  it("waits for the duration in the holder's Lease", async () => {
    const leases = new LeaseCluster();
    leases.write({ spec: { holderIdentity: "dead", leaseDurationSeconds: 40 } });
    const b = contend(leases, "b");
    await pass(39.9);
    assert.deepEqual(b.log, []);
    await pass(2);
    assert.deepEqual(b.log, ["started@40"]);
  });

  it("waits for an hour at most, whatever the Lease says", async () => {
    const leases = new LeaseCluster();
    leases.write({ spec: { holderIdentity: "evil", leaseDurationSeconds: 2_000_000_000 } });
    const b = contend(leases, "b");
    await pass(3_599);
    assert.deepEqual(b.log, []);
    await pass(3);
    assert.deepEqual(b.log, ["started@3600"]);
  });
});

describe("a leader that cannot renew", () => {
  it("has stopped before another can lead", async () => {
    const leases = new LeaseCluster();
    const a = contend(leases, "a");
    const b = contend(leases, "b");
    await pass(20.5);
    a.network.isCut = true;
    await pass(30);
    // The last renewal was sent at 20 s.
    assert.deepEqual(a.log, ["started@0", "aborted@30", "renew-deadline@30"]);
    assert.equal(a.election.leading, false);
    // The other sees it within 2 s, waits for 15 s, and tries every 2 s.
    const [started] = b.log;
    assert.match(started!, /^started@3[5-9]/);
  });

  it("measures from the time when its last renewal was sent, not answered", async () => {
    const leases = new LeaseCluster();
    const a = contend(leases, "a");
    await pass(1);
    a.network.delayMs = 3_000;
    await pass(3);
    // The renewal was sent at 2 s and answered at 5 s. Later renewals get no answer.
    a.network.isCut = true;
    await pass(10);
    assert.deepEqual(a.log, ["started@0", "aborted@12", "renew-deadline@12"]);
  });

  it("does not start a term with a response after the deadline", async () => {
    const leases = new LeaseCluster();
    const a = contend(leases, "a");
    a.network.delayMs = 11_000;
    await pass(60);
    assert.deepEqual(a.log, []);
  });

  it("stops leading by its clock, even if no timer has fired", async () => {
    const leases = new LeaseCluster();
    let now = 0;
    const a = contend(leases, "a", { now: () => now });
    await settle();
    assert.equal(a.election.leading, true);
    // The same happens after the process was suspended.
    now = 10_000;
    assert.equal(a.election.leading, false);
  });

  it("is not restored by a late response", async () => {
    const leases = new LeaseCluster();
    let now = 0;
    const a = contend(leases, "a", { now: () => now });
    a.network.delayMs = 1_000;
    await pass(3);
    now = 9_000;
    await pass(1.5);
    assert.equal(leases.holders.length, 2, "the renewal is on its way");
    now = 10_500;
    await pass(0.5);
    assert.deepEqual(a.log, ["started@2", "aborted@5", "renew-deadline@5"]);
  });

  it("survives a short outage, and leads again after a long one", async () => {
    const leases = new LeaseCluster();
    const a = contend(leases, "a");
    await pass(2.5);
    a.network.isCut = true;
    await pass(4);
    a.network.isCut = false;
    await pass(20);
    assert.deepEqual(a.log, ["started@0"]);
    a.network.isCut = true;
    await pass(30);
    a.network.isCut = false;
    await pass(10);
    assert.equal(a.log.length, 4);
    assert.equal(a.election.leading, true);
  });

  it("does not contend again before its work has ended", async () => {
    const leases = new LeaseCluster();
    let terms = 0;
    const a = contend(leases, "a", {
      onStartedLeading: async (signal) => {
        terms++;
        await new Promise((resolve) => signal.addEventListener("abort", () => setTimeout(resolve, 60_000)));
      },
    });
    await pass(1);
    a.network.isCut = true;
    await pass(15);
    a.network.isCut = false;
    await pass(50);
    assert.equal(terms, 1);
    await pass(30);
    assert.equal(terms, 2);
  });
});

describe("a Lease that others write to", () => {
  it("ends the term at the next renewal, if another replica has taken it", async () => {
    const leases = new LeaseCluster();
    const a = contend(leases, "a");
    await pass(1);
    leases.write({ spec: { holderIdentity: "thief", leaseDurationSeconds: 15 } });
    await pass(1.1);
    assert.deepEqual(a.log, ["started@0", "aborted@2", "lease-lost@2"]);
  });

  it("ends the term at the next renewal, if another replica has held and released it", async () => {
    const leases = new LeaseCluster();
    const a = contend(leases, "a");
    await pass(1);
    leases.write({ spec: { ...leases.lease?.spec, holderIdentity: "", leaseTransitions: 2 } });
    await pass(1.1);
    assert.deepEqual(a.log, ["started@0", "aborted@2", "lease-lost@2"]);
  });

  it("stays held and keeps the annotation, if a user annotates it", async () => {
    const leases = new LeaseCluster();
    const a = contend(leases, "a");
    await pass(1);
    leases.write({ ...leases.lease, metadata: { annotations: { note: "hello" } } });
    await pass(10);
    assert.deepEqual(a.log, ["started@0"]);
    assert.deepEqual(leases.lease?.metadata.annotations, { note: "hello" });
    assert.ok(leases.holders.length >= 5);
  });

  it("is recreated, if it is deleted", async () => {
    const leases = new LeaseCluster();
    const a = contend(leases, "a");
    await pass(1);
    leases.remove(LEASE);
    await pass(5);
    assert.equal(a.election.leading, true);
    assert.equal(leases.lease?.spec?.holderIdentity, "a");
  });
});

describe("work that fails", () => {
  it("ends the term, releases the Lease, and is tried again at the next attempt", async () => {
    const leases = new LeaseCluster();
    const a = contend(leases, "a", {
      onStartedLeading: async () => {
        throw new Error("cannot work");
      },
    });
    await pass(1.5);
    assert.deepEqual(a.log, ["internal-error@0"]);
    assert.deepEqual(leases.holders, ["a", "nobody"]);
    await pass(1);
    assert.deepEqual(a.log, ["internal-error@0", "internal-error@2"]);
  });
});
