import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { claimEventsRig, NO_TARGET, OLD } from "#test/fakes/claim-events-rig.ts";

type Rig = ReturnType<typeof claimEventsRig>;

/** A leader that began more than a minute ago. */
async function leading(): Promise<Rig> {
  const rig = claimEventsRig();
  rig.lead();
  await rig.pass(61);
  return rig;
}

const notes = ({ sent }: Rig) =>
  sent.map(({ namespace, regarding, note }) => `${namespace}/${regarding.name}: ${note}`);
const reasons = ({ sent }: Rig) => sent.map(({ regarding, reason }) => `${regarding.name} ${reason}`);

describe("an object whose names are not mapped", () => {
  it("gets one Event per reason, ten seconds later, with the names, the code and advice", async () => {
    const rig = await leading();
    rig.set("shop/web", {
      "a.example.com": NO_TARGET,
      "b.example.com": NO_TARGET,
      "denied.example.com": "nginx",
      "d.example.com": "nginx",
    });
    rig.run();
    await rig.pass(9);
    assert.deepEqual(rig.sent, []);
    await rig.pass(10);
    assert.deepEqual(notes(rig), [
      "shop/web: a.example.com, b.example.com are not mapped (no-target): no known ingress controller serves the " +
        "class of the object; correct it, or ask the cluster administrator for the mapping if pods need it",
      "shop/web: denied.example.com is not mapped (domain-not-allowed): its domain may not be mapped; ask the " +
        "cluster administrator for the mapping if pods need it",
    ]);
    const [{ type, reason, regarding }] = rig.sent as [(typeof rig.sent)[0]];
    assert.deepEqual(
      { type, reason, regarding },
      {
        type: "Warning",
        reason: "NoTarget",
        regarding: {
          apiVersion: "networking.k8s.io/v1",
          kind: "Ingress",
          namespace: "shop",
          name: "web",
          uid: "uid of shop/web",
        },
      },
    );
  });

  it("gets no Event for short-lived, chosen or unchanged refusals", async () => {
    const rig = await leading();
    rig.set("shop/new", { "a.example.com": NO_TARGET });
    rig.set("shop/ignored", { "b.example.com": { code: "ignored", text: "" } });
    rig.set("shop/stays", { "d.example.com": NO_TARGET });
    rig.run();
    await rig.pass(5);
    rig.set("shop/new", { "a.example.com": "nginx" });
    rig.run();
    await rig.pass(20, () => {
      rig.set("shop/stays", { "d.example.com": NO_TARGET });
      rig.run();
    });
    assert.deepEqual(reasons(rig), ["stays NoTarget"]);
  });

  it("gets another Event for a new reason, and none for another name while the API server has the Event", async () => {
    const rig = await leading();
    const change = async (names: Parameters<Rig["set"]>[1]) => {
      rig.set("shop/web", names);
      rig.run();
      await rig.pass(20);
      return notes(rig).map((note) => note.slice(0, note.indexOf(")") + 1));
    };
    const first = "shop/web: a.example.com is not mapped (no-target)";
    assert.deepEqual(await change({ "a.example.com": NO_TARGET }), [first]);
    const second = "shop/web: a.example.com is not mapped (no-address)";
    assert.deepEqual(await change({ "a.example.com": { code: "no-address", text: "" } }), [first, second]);
    const both = { "a.example.com": NO_TARGET, "b.example.com": NO_TARGET };
    assert.deepEqual(await change(both), [first, second]);
    rig.kept.clear();
    const third = "shop/web: a.example.com, b.example.com are not mapped (no-target)";
    assert.deepEqual(await change({ ...both, "c.example.com": "nginx" }), [first, second, third]);
  });

  it("gets an Event for a conflict with another object, without any name of the other tenant", async () => {
    const rig = await leading();
    rig.set("shop/web", { "a.example.com": "nginx" }, "2002-01-01T00:00:00Z");
    rig.run();
    await rig.pass(20);
    rig.set("secret-tenant/secret-object", { "a.example.com": "secret-target" }, OLD);
    rig.run();
    await rig.pass(20);
    assert.deepEqual(reasons(rig), ["web Conflict"]);
    assert.doesNotMatch(JSON.stringify(rig.sent), /secret/);
  });

  it("gets an Event of type Normal if pods reach the name without a mapping", async () => {
    const rig = await leading();
    rig.set("shop/web", { "a.example.com": { code: "load-balancer-hostname", text: "" } });
    rig.run();
    await rig.pass(20);
    assert.deepEqual(
      rig.sent.map(({ type, reason }) => [type, reason]),
      [["Normal", "LoadBalancerHostname"]],
    );
  });

  it("gets an Event for a mapped name that loses a port, but not for other warnings", async () => {
    const rig = await leading();
    rig.set("shop/web", { "a.example.com": "nginx" }, OLD, { code: "port-lost", text: "secret" });
    rig.set("shop/api", { "b.example.com": "nginx" }, OLD, { code: "dns-elsewhere", text: "" });
    rig.run();
    await rig.pass(20);
    assert.deepEqual(notes(rig), [
      "shop/web: a.example.com is mapped (port-lost): its ingress controller's Service lacks port 80 or 443, so " +
        "pods cannot use that port; if a server answers on it at the public address, tell the cluster administrator",
    ]);
  });

  it("gets no Event if it is deleted before its turn, and a later one if it cannot be read", async () => {
    const rig = await leading();
    rig.set("shop/web", { "a.example.com": NO_TARGET });
    rig.run();
    await rig.pass(5);
    rig.set("shop/web", {});
    rig.run();
    await rig.pass(20);
    assert.equal(rig.api.lookups, 0);
    rig.api.fails = true;
    rig.set("shop/web", { "a.example.com": NO_TARGET });
    rig.run();
    await rig.pass(12);
    rig.api.fails = false;
    await rig.pass(40);
    assert.deepEqual([reasons(rig), rig.api.lookups], [["web NoTarget"], 2]);
  });
});

describe("a new leader", () => {
  const age = (rig: Rig, seconds: number) => new Date(rig.clock.now() - seconds * 1_000).toISOString();

  it("repeats nothing: it leaves out old objects, and the API server still has the Events of young ones", async () => {
    const rig = claimEventsRig();
    rig.set("shop/old", { "a.example.com": NO_TARGET });
    rig.set("shop/young", { "b.example.com": NO_TARGET }, age(rig, 60));
    rig.run();
    for (const _leader of [1, 2]) {
      rig.lead();
      await rig.pass(30);
    }
    assert.deepEqual(reasons(rig), ["young NoTarget"]);
  });

  it("writes nothing after its term has ended", async () => {
    const rig = claimEventsRig();
    const { stop } = rig.lead();
    rig.set("shop/web", { "a.example.com": NO_TARGET });
    rig.run();
    await rig.pass(5);
    stop();
    await rig.pass(30);
    assert.deepEqual([rig.sent, rig.clock.pending], [[], 0]);
  });
});
