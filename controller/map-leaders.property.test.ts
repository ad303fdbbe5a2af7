import assert from "node:assert/strict";
import { test } from "node:test";
import { parseMap } from "#lib/documents/map-format.ts";
import { kubeMapReader } from "#lib/documents/map-reader.ts";
import { KubeMapWriter } from "#lib/documents/map-writer.ts";
import { isMap } from "#lib/documents/published-map.ts";
import { leaderClient } from "#lib/kube/leader-client.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { claimOf } from "#test/arbitraries.ts";
import { IP, loopRig, stopClock } from "#test/fakes/loop-rig.ts";
import { MemoryKube, refusal } from "#test/fakes/memory-kube.ts";
import { fc } from "#test/property.ts";
import { OBJECTS, publishedIn } from "#test/published.ts";

// Two leaders whose writes interleave: a write that was sent before the Lease changed may arrive at any later time.

const NAMESPACE = "sys";
const PATH = `/api/v1/namespaces/${NAMESPACE}/configmaps/${OBJECTS.map}`;
const RIVAL_IP = "198.51.100.66";
/** The namespace `shop` has this name. A tenant claims it for another target with an older object. */
const HELD = "held.example.com";

/** A replica: it has a loop for each of its terms, which writes only while the replica has the Lease. */
function replica(kube: MemoryKube, lease: { holder: string | undefined }, identity: string) {
  const client = leaderClient(kube.client, () => lease.holder === identity);
  const targets = [
    { name: "ingress-nginx", clusterIPs: [IP] },
    { name: "rival", clusterIPs: [RIVAL_IP] },
  ];
  const objects = new Map<string, readonly string[]>();
  const rigs: ReturnType<typeof loopRig<KubeMapWriter>>[] = [];
  const see = (object: string, names: readonly string[]) => {
    const created = object.startsWith("tenant") ? "2020-01-01T00:00:00Z" : "2026-01-01T00:00:00Z";
    const target = object.startsWith("tenant") ? "rival" : "ingress-nginx";
    rigs.at(-1)?.source.sink(
      object,
      names.map((name) => claimOf(name, object, { target, created })),
    );
  };
  return {
    observe(object: string, names: readonly string[]) {
      objects.set(object, names);
      see(object, names);
    },
    lead() {
      lease.holder = identity;
      const writer = new KubeMapWriter({ client, namespace: NAMESPACE, log: silentLogger, now: () => 0 });
      const rig = loopRig(writer, { guardHoldSeconds: 0 });
      Object.assign(rig.addresses, { list: targets, earlier: targets });
      rig.loop.start(rig.leadership.signal);
      rigs.push(rig);
      for (const [object, names] of objects) see(object, names);
      rig.source.sync();
    },
    /** The replica notices that its Lease is over. */
    end() {
      const rig = rigs.at(-1);
      rig?.leadership.abort();
      void rig?.loop.stop();
    },
    stop: () => Promise.all(rigs.map(({ loop }) => loop.stop())),
    hasTakenOver: () => rigs.at(-1)?.loop.publishedNames !== undefined,
  };
}

/** The writes that have been sent and did not arrive yet. */
function delays(kube: MemoryKube) {
  const sent: PromiseWithResolvers<void>[] = [];
  const state = { slow: false, failures: 0 };
  kube.onWrite = async ({ path }) => {
    if (state.failures > 0) {
      state.failures -= 1;
      throw refusal(path, 503);
    }
    if (!state.slow) return;
    const gate = Promise.withResolvers<void>();
    sent.push(gate);
    await gate.promise;
  };
  return {
    state,
    arrive: () => sent.shift()?.resolve(),
    arriveAll: () => sent.splice(0).map(({ resolve }) => resolve()),
  };
}

const step = fc.oneof(
  fc.record({
    do: fc.constant("claim" as const),
    object: fc.nat(4).map((at) => `shop/o${at}`),
    names: fc.uniqueArray(
      fc.nat(9).map((at) => `n${at}.example.com`),
      { maxLength: 4 },
    ),
  }),
  fc.record({ do: fc.constant("wait" as const), ms: fc.constantFrom(0, 50, 300) }),
  fc.record({ do: fc.constant("change of leader" as const), noticed: fc.boolean() }),
  fc.record({ do: fc.constant("slow" as const) }),
  fc.record({ do: fc.constant("fail" as const), times: fc.integer({ min: 1, max: 3 }) }),
  fc.record({ do: fc.constant("arrive" as const) }),
  fc.record({
    do: fc.constant("edit" as const),
    text: fc.constantFrom("", "x", `${RIVAL_IP} n1.example.com # tenant\n`),
  }),
);

type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

/**
 * Runs the steps. `reads`: the addresses of the held name that a reader got. `later`: writes after all is calm. `lost`:
 * a new leader found a map that somebody had edited, so nobody knows who has the names that are not in it.
 */
async function run(pass: (ms: number) => Promise<void>, steps: readonly Step[]) {
  const kube = new MemoryKube();
  const lease = { holder: undefined };
  const writes = delays(kube);
  const claims = new Map<string, readonly string[]>([["shop/held", [HELD]]]);
  const both = [replica(kube, lease, "a"), replica(kube, lease, "b")] as const;
  const reads: string[] = [];
  const reader = kubeMapReader({ client: kube.client, namespace: NAMESPACE, log: silentLogger }).start((offer) => {
    if (isMap(offer)) reads.push((offer.lines.get(HELD)?.addresses ?? []).join());
  });
  for (const one of both) one.observe("shop/held", [HELD]);
  both[0].lead();
  await pass(500);
  for (const one of both) one.observe("tenant/web", [HELD]);
  let leading = 0;
  let lost = false;
  for (const next of steps) {
    if (next.do === "claim") {
      claims.set(next.object, next.names);
      for (const one of both) one.observe(next.object, next.names);
    } else if (next.do === "wait") await pass(next.ms);
    else if (next.do === "slow") writes.state.slow = true;
    else if (next.do === "fail") writes.state.failures = next.times;
    else if (next.do === "arrive") writes.arrive();
    else if (next.do === "edit") {
      kube.put(PATH, { ...kube.at(PATH), data: { hosts: next.text } });
      lost ||= !both[leading as 0 | 1].hasTakenOver();
    } else {
      if (next.noticed) both[leading as 0 | 1].end();
      leading = 1 - leading;
      lost ||= !isMap(await parseMap(kube.at(PATH)));
      both[leading as 0 | 1].lead();
      if (!next.noticed) await pass(20);
      both[(1 - leading) as 0 | 1].end();
    }
  }
  writes.state.slow = false;
  writes.state.failures = 0;
  writes.arriveAll();
  await pass(65_000);
  const published = publishedIn([kube.at(PATH) ?? {}]);
  const before = kube.writes.length;
  await pass(5_000);
  const later = kube.writes.length - before;
  await reader.stop();
  for (const one of both) one.end();
  await Promise.all(both.map((one) => one.stop()));
  return { published, claims, reads, later, lost };
}

test("property: leaders that interleave converge to one map, and the holder keeps its name", async (t) => {
  const pass = stopClock(t);
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
      const { published, claims, reads, later, lost } = await run((ms) => pass(ms, Math.max(10, ms / 100)), steps);
      if (lost) claims.delete("shop/held");
      if (lost) published.hosts.delete(HELD);
      const wanted = new Set([...claims.values()].flat());
      assert.deepEqual([...published.hosts.keys()].sort(), [...wanted].sort());
      for (const [name, addresses] of published.hosts) assert.deepEqual(addresses, [IP], name);
      if (!lost) assert.equal(published.holders.get(HELD), "shop");
      assert.notEqual(published.revision, undefined);
      assert.equal(later, 0, "nobody writes without a change");
      assert.ok(lost || !reads.includes(RIVAL_IP), "no reader ever got the tenant's address");
    }),
    { numRuns: 60 },
  );
});
