import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { ingress } from "./objects.ts";
import { NAMESPACE, type System, startSystem, until } from "./system.ts";

// An etcd that is restored from a backup while everything runs. The Lease, the map, the fronts and all sources are
// then older than what the controllers and webhooks hold, and etcd gives versions a second time.

const LEASE = { leaseSeconds: 4 };
const KEPT = ["a.example.com", "b.example.com", "c.example.com"];
const LATER = "later.example.com";
/** Much less than the half hour after which everything is read again in any case. */
const SOON_MS = 120_000;
const target = (name: string) => ({ name, upstream: { service: { namespace: "edge", name } }, classes: [name] });

let system: System;
before(async () => {
  const config = { controller: LEASE, map: { vanishSeconds: 1 }, targets: [target("one"), target("two")] };
  system = await startSystem({ controllers: 2, values: { config } });
  await system.apply(ingress("kept", KEPT, { className: "one" }));
  await system.ready(KEPT);
});
after(() => system?.stop());

async function leadTo(names: readonly string[], front: string): Promise<void> {
  const service = ["-n", NAMESPACE, "get", "service", `switchback-${front}`];
  const leads = async () => {
    const { spec } = await system.json<{ spec: { clusterIPs: string[] } }>(...service);
    const published = await system.published();
    return names.every((name) => published.get(name)?.join() === spec.clusterIPs.join());
  };
  await until(`${names.join(", ")} to lead to ${front}`, leads, SOON_MS);
}

async function mapIs(names: readonly string[]): Promise<void> {
  const leader = await system.leader();
  const same = async () => {
    const known = (await leader.status()).names.map(({ name }) => name).sort();
    return known.join() === names.join() && [...(await system.publishedNames())].sort().join() === names.join();
  };
  await until(`the map and what the leader knows to be ${names.join(", ")}`, same, SOON_MS);
}

it("a restore is detected: what the backup has stays, what came later leaves, new changes are followed", async () => {
  const old = await system.leader();
  await system.cluster.backUp();
  await system.ready(KEPT);
  // What the backup does not have: another leader, a name, a front Service that was recreated, and versions that etcd
  // will give a second time.
  await system.end(old, "SIGTERM");
  await system.apply(ingress("later", [LATER], { className: "two" }));
  for (const number of Array(20).keys()) {
    await system.apply(ingress("busy", [`busy-${number}.example.com`], { className: "one" }));
  }
  await system.ready([...KEPT, LATER, "busy-19.example.com"]);
  await leadTo([LATER], "two");
  await system.kubectl("-n", NAMESPACE, "delete", "service", "switchback-two");
  await leadTo([LATER], "two");

  await system.cluster.restore();
  assert.ok((await system.publishedNames()).isSupersetOf(new Set(KEPT)), "the map is the backup's");
  // The Lease names the ended leader again, and has to expire first.
  await mapIs(KEPT);
  await leadTo(KEPT, "one");

  await system.apply(ingress("new", ["new.example.com"], { className: "two" }));
  await leadTo(["new.example.com"], "two");
  await system.ready([...KEPT, "new.example.com"]);
});
