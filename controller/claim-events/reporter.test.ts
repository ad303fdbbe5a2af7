import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import { claimEventsRig, NO_TARGET } from "#test/fakes/claim-events-rig.ts";

type Rig = ReturnType<typeof claimEventsRig>;

const notes = ({ sent }: Rig) =>
  sent.map(({ namespace, regarding, note }) => `${namespace}/${regarding.name}: ${note}`);

describe("an object whose names are not mapped", () => {
  it("gets one Event per reason, ten seconds later, with the names, the code and advice", async (t) => {
    const rig = claimEventsRig(t);
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

  it("gets an Event for a mapped name that loses a port, but not for other warnings", async (t) => {
    const rig = claimEventsRig(t);
    rig.set("shop/web", { "a.example.com": "nginx" }, { code: "port-lost", text: "secret" });
    rig.set("shop/api", { "b.example.com": "nginx" }, { code: "dns-elsewhere", text: "" });
    rig.run();
    await rig.pass(20);
    assert.deepEqual(notes(rig), [
      "shop/web: a.example.com is mapped (port-lost): its ingress controller's Service lacks port 80 or 443, so " +
        "pods cannot use that port; if a server answers on it at the public address, tell the cluster administrator",
    ]);
  });
});

const MINUTE = 60;

test("an Ingress that flaps each second for ten minutes gets one Event", async (t) => {
  const rig = claimEventsRig(t);
  await rig.pass(10 * MINUTE, (second) => {
    const isBad = second % 3 < 2;
    rig.set("shop/same", { "a.example.com": isBad ? NO_TARGET : "nginx" });
    rig.run();
  });
  assert.deepEqual(
    rig.sent.map(({ regarding }) => regarding.name),
    ["same"],
  );
});

test("10,000 bad Ingresses of a namespace delay no other namespace, and get no Event once deleted", async (t) => {
  const rig = claimEventsRig(t);
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
