import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { OBJECTS } from "../published.ts";
import type { AuditEntry } from "./audit.ts";
import { type LeaseSpec, recordLease, recordMap } from "./history.ts";
import { ingress } from "./objects.ts";
import { NAMESPACE, type System, startSystem, until } from "./system.ts";
import type { Replica } from "./system-options.ts";

const LEASE_MS = 5_000;
const VANISH_MS = 6_000;
const NAMES = ["a.example.com", "b.example.com", "c.example.com"];

let system: System;
before(async () => {
  system = await startSystem({
    controllers: 2,
    audit: true,
    values: {
      config: {
        controller: { leaseSeconds: LEASE_MS / 1000 },
        map: { vanishSeconds: VANISH_MS / 1000 },
      },
    },
  });
  await system.apply(NAMES.map((name, index) => ingress(`i-${index}`, [name])).join(""));
  await system.ready(NAMES);
});
after(() => system?.stop());

const isWrite = ({ verb }: AuditEntry) => !["get", "list", "watch"].includes(verb);
/** Leases do not count: every replica looks at the Lease and may try to take it. */
const isPublication = (entry: AuditEntry) => isWrite(entry) && entry.objectRef?.resource !== "leases";
const time = (text: string | undefined) => Date.parse(text ?? "");

async function follower(): Promise<Replica> {
  const leader = await system.leader();
  const other = system.controllers.find((replica) => replica !== leader);
  assert.ok(other);
  return other;
}

async function holder(): Promise<string> {
  const lease = await system.json<{ spec: LeaseSpec }>("-n", NAMESPACE, "get", "lease", OBJECTS.lease);
  return lease.spec.holderIdentity ?? "";
}

/** The Lease as it was when `name` first held it, and as it was just before. */
function handOver(lease: readonly LeaseSpec[], name: string): { last: LeaseSpec; first: LeaseSpec } {
  const at = lease.findIndex((spec) => spec.holderIdentity === name);
  const [last, first] = [lease[at - 1], lease[at]];
  assert.ok(last && first, `${name} took the Lease: ${JSON.stringify(lease)}`);
  return { last, first };
}

describe("two controllers", () => {
  it("have one leader, which knows the cluster; both are ready", async () => {
    const leader = await system.leader();
    assert.match(await holder(), new RegExp(`^${leader.process.name}`));
    for (const controller of system.controllers) {
      await until("both to be ready", async () => (await controller.page("/readyz")).status === 200);
      const { names } = await controller.status();
      assert.deepEqual(names.map(({ name }) => name).sort(), controller === leader ? NAMES : []);
    }
  });

  it("have one that writes; the other only reads, and handles the Lease", async () => {
    const [leader, other] = [await system.leader(), await follower()];
    await system.apply(ingress("written", ["written.example.com"]));
    await system.ready(["written.example.com"]);
    const written = (await system.audit.of(leader)).filter(isPublication);
    assert.ok(written.some(({ objectRef }) => objectRef?.name === OBJECTS.map));
    const read = await system.audit.of(other);
    assert.ok(read.length > 0, "the log tells the replicas apart");
    assert.deepEqual(read.filter(isPublication), []);
    assert.match(await leader.log(), /"msg":"map published"/);
    assert.doesNotMatch(await other.log(), /"msg":"map published"/);
  });
});

describe("a leader that is killed", () => {
  it("is replaced by the other after the lease time; no name is lost, one that vanished meanwhile waits", async () => {
    const [leader, other] = [await system.leader(), await follower()];
    await system.apply(ingress("gone", ["gone.example.com"]));
    await system.ready(["gone.example.com"]);
    const [map, lease] = [await recordMap(system), await recordLease(system)];
    const old = await holder();
    await system.end(leader, "SIGKILL");
    await system.kubectl("delete", "ingress", "gone");
    await until("the other to lead", async () => (await other.status()).leader, LEASE_MS + 20_000);
    const { last, first } = handOver(await lease(), await holder());
    assert.equal(last.holderIdentity, old);
    const silence = time(first.acquireTime) - time(last.renewTime);
    assert.ok(silence >= LEASE_MS, `taken over ${silence} ms after the last renewal`);
    assert.ok(silence < LEASE_MS + 5_000, `taken over only ${silence} ms after the last renewal`);
    await until("gone.example.com to leave", async () => !(await system.publishedNames()).has("gone.example.com"));
    const stayed = Date.now() - time(first.acquireTime);
    assert.ok(stayed >= VANISH_MS, `it left ${stayed} ms after the take-over`);
    for (const hosts of await map()) {
      for (const name of [...NAMES, "written.example.com"]) assert.ok(hosts.has(name), `${name} was lost`);
    }
  });

  it("is replaced by one that publishes new names", async () => {
    await system.apply(ingress("next", ["next.example.com"]));
    await system.ready(["next.example.com"]);
  });
});

describe("a leader that is stopped", () => {
  it("gives the Lease back, and the other leads at once", async () => {
    await system.start("controller");
    const [leader, other] = [await system.leader(), await follower()];
    await until("both to be ready", async () => (await other.page("/readyz")).status === 200);
    const [map, lease] = [await recordMap(system), await recordLease(system)];
    await system.end(leader, "SIGTERM");
    await until("the other to lead", async () => (await other.status()).leader);
    const { last, first } = handOver(await lease(), await holder());
    assert.equal(last.holderIdentity, "", "given back");
    const gap = time(first.acquireTime) - time(last.renewTime);
    assert.ok(gap < LEASE_MS, `taken ${gap} ms after it was given back`);
    assert.match(await leader.log(), /"msg":"stopped"/);
    await system.apply(ingress("last", ["last.example.com"]));
    await system.ready(["last.example.com"]);
    for (const hosts of await map()) for (const name of NAMES) assert.ok(hosts.has(name), `${name} was lost`);
  });

  it("wrote nothing after it had given the Lease back", async () => {
    const writers = new Set<string>();
    let current: string | undefined;
    for (const { user, ...entry } of (await system.audit.entries()).filter(isPublication)) {
      const [credential = ""] = user.extra?.["authentication.kubernetes.io/credential-id"] ?? [];
      if (credential === "" || credential === current) continue;
      assert.ok(!writers.has(credential), `an earlier leader wrote again: ${JSON.stringify(entry)}`);
      writers.add(credential);
      current = credential;
    }
    assert.equal(writers.size, 3, "each led once");
  });
});

describe("a leader that is suspended while it publishes, and goes on after another has taken over", () => {
  it("leaves the map right within two seconds; no name is lost on the way", async () => {
    await system.start("controller");
    const [leader, other] = [await system.leader(), await follower()];
    await until("both to be ready", async () => (await other.page("/readyz")).status === 200);
    const map = await recordMap(system);
    const added = Array.from({ length: 20 }, (_, index) => `s${index}.example.com`);
    const isPublished = async (name: string) => (await system.publishedNames()).has(name);
    for (const [index, name] of added.entries()) await system.apply(ingress(`s-${index}`, [name]));
    await until("the first of them", async () => await isPublished("s0.example.com"));
    await system.apply(ingress("s-0", ["late.example.com"]));
    process.kill(leader.process.pid, "SIGSTOP");
    try {
      await until("the other to lead", async () => (await other.status()).leader);
      await system.apply(ingress("s-1", ["later.example.com"]));
      await until("a name of the new leader", async () => await isPublished("later.example.com"));
    } finally {
      process.kill(leader.process.pid, "SIGCONT");
    }
    await until("the former leader to notice", async () => !(await leader.status()).leader);
    const right = [...NAMES, ...added.slice(2), "late.example.com", "later.example.com"];
    await until("the map to be right", async () => (await Promise.all(right.map(isPublished))).every(Boolean), 2_000);
    for (const hosts of await map()) for (const name of NAMES) assert.ok(hosts.has(name), `${name} was lost`);
  });
});
