import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { RemovalHold } from "#hostmap/removal-guard.ts";
import { OBJECTS } from "../published.ts";
import { GatewayApi, installGatewayApi } from "./gateway-api.ts";
import { recordMap } from "./history.ts";
import { ingress, namespaceYaml } from "./objects.ts";
import { NAMESPACE, type System, startSystem, until } from "./system.ts";

const VANISH_MS = 5_000;
const KEPT = ["a.example.com", "b.example.com", "c.example.com", "d.example.com"];
const DROPPED = Array.from({ length: 8 }, (_, index) => `n${index}.example.com`);

let system: System;
let operator: string;
before(async () => {
  const upstream = { service: { namespace: "ingress-nginx", name: "ingress-nginx-controller" } };
  const config = {
    map: { vanishSeconds: VANISH_MS / 1000 },
    sources: { discoverySeconds: 1 },
    targets: [{ name: "ingress-nginx", upstream, classes: ["nginx", "edge"] }],
  };
  system = await startSystem({ values: { config } });
  operator = await system.person("switchback-operator");
  await system.apply(ingress("kept", KEPT));
  await system.ready(KEPT);
});
after(() => system?.stop());

async function addDropped(): Promise<void> {
  await system.apply(ingress("dropped", DROPPED));
  await system.ready([...KEPT, ...DROPPED]);
}

async function publishedHold(): Promise<RemovalHold | undefined> {
  return (await system.map()).hold;
}

/** Deletes eight of twelve names at once, and returns the hold that this must cause. */
async function drop(): Promise<RemovalHold> {
  await system.kubectl("delete", "ingress", "dropped");
  let hold: RemovalHold | undefined;
  await until("the hold", async () => {
    hold = await publishedHold();
    return hold?.names === DROPPED.length;
  });
  assert.ok(hold);
  return hold;
}

const confirm = (...args: string[]) => system.cli(["confirm", ...args], { kubeconfig: operator });

async function assertNothingLeft(sinceMs: number): Promise<void> {
  await until("the vanish time to be over", () => Date.now() - sinceMs > 2 * VANISH_MS);
  assert.deepEqual([...(await system.publishedNames())].sort(), [...KEPT, ...DROPPED].sort());
}

describe("a name that nothing claims any more", () => {
  it("stays for the vanish time, then leaves the map, and no other name leaves with it", async () => {
    await system.apply(ingress("one", ["one.example.com"]));
    await system.ready(["one.example.com"]);
    const editions = await recordMap(system);
    await system.kubectl("delete", "ingress", "one");
    const deletedAt = Date.now();
    const leader = await system.leader();
    await until("/status to say that it leaves", async () =>
      (await leader.status()).leaving.includes("one.example.com"),
    );
    await until("it to leave", async () => !(await system.publishedNames()).has("one.example.com"));
    // The name vanished before kubectl ended, by less than a second.
    assert.ok(Date.now() - deletedAt > VANISH_MS - 1_000, `after ${Date.now() - deletedAt} ms`);
    for (const { hosts } of await editions()) assert.ok(KEPT.every((name) => hosts.has(name)));
  });

  it("that comes back in time never leaves", async () => {
    await system.apply(ingress("flap", ["flap.example.com"]));
    await system.ready(["flap.example.com"]);
    const editions = await recordMap(system);
    const leader = await system.leader();
    await system.kubectl("delete", "ingress", "flap");
    await until("that it leaves", async () => (await leader.status()).leaving.length > 0);
    await system.apply(ingress("flap-again", ["flap.example.com"]));
    await until("that it stays", async () => (await leader.status()).leaving.length === 0);
    const from = Date.now();
    await until("the vanish time to be over", () => Date.now() - from > VANISH_MS);
    for (const { hosts } of await editions()) assert.ok(hosts.has("flap.example.com"));
    await system.kubectl("delete", "ingress", "flap-again");
    await until("it to leave", async () => !(await system.publishedNames()).has("flap.example.com"));
  });
});

describe("eight names of twelve that vanish at once", () => {
  it("are held back: annotation, /status, Event and log say so", async () => {
    await addDropped();
    const from = Date.now();
    const hold = await drop();
    assert.equal(hold.of, KEPT.length + DROPPED.length);
    assert.ok(hold.until - hold.since >= 300_000, "for five minutes");
    const leader = await system.leader();
    const status = await leader.status();
    assert.deepEqual(status.hold, hold);
    assert.deepEqual([...status.leaving].sort(), DROPPED);
    assert.match(await leader.log(), /"code":"removal-held"/);
    await until("the Event", async () => {
      const args = ["-n", NAMESPACE, "get", "events.events.k8s.io", "--field-selector", "reason=RemovalHeld"];
      const note = await system.kubectl(...args, "-o", "jsonpath={.items[*].note}");
      return /\d+ of 12 names would be removed at once; held back until .* or `switchback confirm`/.test(note);
    });
    await assertNothingLeft(from);
  });

  it("do not keep a new name out of the map", async () => {
    await system.apply(ingress("new", ["new.example.com"]));
    await system.ready(["new.example.com", ...DROPPED]);
    await system.apply(ingress("new", [KEPT[0] ?? ""]));
    await until("it to be leaving too", async () => (await publishedHold())?.names === DROPPED.length + 1);
  });

  it("stay held when another controller takes over", async () => {
    const before = await publishedHold();
    const editions = await recordMap(system);
    await system.start("controller");
    const [old] = system.controllers;
    assert.ok(old);
    await system.end(old, "SIGTERM");
    await until("a hold of the new leader", async () => {
      const hold = await publishedHold();
      return hold !== undefined && hold.id !== before?.id && hold.names === DROPPED.length + 1;
    });
    for (const { hosts } of await editions()) assert.ok(DROPPED.every((name) => hosts.has(name)));
  });

  it("do not leave if `confirm` has no terminal to ask on", async () => {
    const { code, stdout, stderr } = await system.cli(["confirm"], { kubeconfig: operator, input: "y\n" });
    assert.equal(code, 1);
    assert.match(stdout, /9 of 13 names are held until /);
    assert.match(stderr, /nothing was changed/);
    assert.ok(await publishedHold());
  });

  it("leave when an operator, who may do nothing else, confirms", async () => {
    const { code, stdout, stderr } = await confirm("--yes");
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^9 of 13 names are held until \S+Z\nconfirmed\n$/);
    await until("them to leave", async () => [...(await system.publishedNames())].sort().join() === KEPT.join());
    await until("the hold to end", async () => (await publishedHold()) === undefined);
    assert.equal((await (await system.leader()).status()).hold, undefined);
    await system.ready(KEPT);
  });

  it("are then held no longer: there is nothing to confirm", async () => {
    const { code, stdout } = await confirm("--yes");
    assert.deepEqual([code, stdout], [0, "no removal is held\n"]);
  });

  it("are held a second time: the old confirmation does not count for the new hold", async () => {
    await addDropped();
    const from = Date.now();
    const { confirmed } = await system.map();
    assert.ok(confirmed, "the old confirmation is still there");
    await drop();
    await assertNothingLeft(from);
  });

  it("stay, and the hold ends, when they come back", async () => {
    const editions = await recordMap(system);
    await addDropped();
    await until("the hold to end", async () => (await publishedHold()) === undefined);
    const from = Date.now();
    await assertNothingLeft(from);
    for (const { hosts } of await editions()) assert.ok(DROPPED.every((name) => hosts.has(name)));
    assert.equal((await confirm("--yes")).stdout, "no removal is held\n");
  });
});

describe("every object of a source, deleted at once", () => {
  /** Asserts that no name leaves before the confirmation, and that all names leave after it. */
  async function heldUntilConfirmed(names: readonly string[]): Promise<void> {
    const from = Date.now();
    await until("the hold", async () => (await publishedHold())?.names === names.length);
    assert.equal((await publishedHold())?.of, names.length);
    await until("the vanish time to be over", () => Date.now() - from > 2 * VANISH_MS);
    assert.deepEqual([...(await system.publishedNames())].sort(), [...names].sort());
    const { code, stdout, stderr } = await confirm("--yes");
    assert.equal(code, 0, stderr);
    assert.match(stdout, new RegExp(`^${names.length} of ${names.length} names are held until`));
    await until("an empty map", async () => (await system.publishedNames()).size === 0);
    await until("the hold to end", async () => (await publishedHold()) === undefined);
  }

  it("is held, and once confirmed leaves an empty map: Ingresses", async () => {
    await system.ready([...KEPT, ...DROPPED]);
    await system.kubectl("delete", "ingress", "--all");
    await heldUntilConfirmed([...KEPT, ...DROPPED]);
  });

  it("is held, and once confirmed leaves an empty map: HTTPRoutes", async () => {
    await installGatewayApi(system);
    await system.apply(namespaceYaml("infra") + namespaceYaml("shop"));
    const api = new GatewayApi(system);
    const allowedRoutes = { namespaces: { from: "All" } };
    await api.gateway("open", [{ name: "http", port: 80, protocol: "HTTP", allowedRoutes }]);
    for (const [index, name] of DROPPED.entries()) await api.route("HTTPRoute", `r${index}`, "open", [name]);
    await api.route("HTTPRoute", "more", "open", KEPT);
    await system.ready([...KEPT, ...DROPPED]);
    await system.kubectl("-n", "shop", "delete", "httproute", "--all");
    await heldUntilConfirmed([...KEPT, ...DROPPED]);
  });
});

describe("confirm", () => {
  it("reports that the namespace in which it looks has no Switchback", async () => {
    const { code, stderr } = await system.cli(["confirm", "--yes", "--namespace", "default"]);
    assert.equal(code, 2);
    assert.match(stderr, new RegExp(`ConfigMap ${OBJECTS.map} not found in namespace default.*--namespace`));
  });

  it("is forbidden for a user who is not an operator", async () => {
    const kubeconfig = await system.cluster.kubeconfigFor({ clientCert: system.cluster.ca.client("stranger", []) });
    const { code, stderr } = await system.cli(["confirm", "--yes"], { kubeconfig });
    assert.equal(code, 1);
    assert.match(stderr, /forbidden/);
  });
});
