import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
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
});

const MINUTE = 60;

test("an Ingress that flaps each second for ten minutes gets one Event", async () => {
  const rig = claimEventsRig();
  rig.lead();
  await rig.pass(10 * MINUTE, (second) => {
    const isBad = second % 3 < 2;
    rig.set("shop/same", { "a.example.com": isBad ? NO_TARGET : "nginx" });
    rig.run();
  });
  assert.deepEqual(
    rig.sent.map(({ regarding }) => regarding.name),
    ["same"],
  );
  assert.ok(rig.api.lookups <= 60, String(rig.api.lookups));
});

test("10,000 bad Ingresses of a namespace delay no other namespace, and get no Event once deleted", async () => {
  const rig = claimEventsRig();
  rig.lead();
  await rig.pass(61);
  for (let index = 0; index < 10_000; index++) rig.set(`noisy/web-${index}`, { [`n${index}.example.com`]: NO_TARGET });
  rig.set("quiet/web", { "quiet.example.com": NO_TARGET });
  rig.run();
  await rig.pass(20);
  assert.ok(rig.sent.some(({ namespace }) => namespace === "quiet"));
  await rig.pass(MINUTE);
  const noisy = rig.sent.filter(({ namespace }) => namespace === "noisy").length;
  assert.ok(noisy >= 35 && noisy <= 45, String(noisy));
  for (let index = 0; index < 10_000; index++) rig.set(`noisy/web-${index}`, {});
  rig.run();
  await rig.pass(MINUTE);
  assert.equal(rig.sent.filter(({ namespace }) => namespace === "noisy").length, noisy);
});
