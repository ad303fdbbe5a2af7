import assert from "node:assert/strict";
import { test } from "node:test";
import { claimEventsRig, NO_TARGET } from "#test/fakes/claim-events-rig.ts";

const MINUTE = 60;

const reasons = ({ sent }: ReturnType<typeof claimEventsRig>) =>
  sent.map(({ namespace, reason }) => `${namespace} ${reason}`);

function names(count: number, suffix: string) {
  return Object.fromEntries(Array.from({ length: count }, (_, index) => [`n${index}.${suffix}`, NO_TARGET]));
}

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

test("Ingresses that live for a second get no Event, and delay no other namespace", async () => {
  const rig = claimEventsRig();
  rig.lead();
  await rig.pass(10 * MINUTE, (second) => {
    rig.set(`shop/web-${second - 1}`, {});
    rig.set(`shop/web-${second}`, { "a.example.com": NO_TARGET });
    if (second === 5 * MINUTE) rig.set("quiet/web", { "quiet.example.com": NO_TARGET });
    rig.run();
  });
  assert.deepEqual(reasons(rig), ["quiet NoTarget"], "none lasted ten seconds");
});

test("10,000 bad names in one Ingress yield one Event of at most 1,024 bytes", async () => {
  const rig = claimEventsRig();
  rig.lead();
  await rig.pass(61);
  rig.set("shop/web", names(10_000, `${"x".repeat(60)}.${"y".repeat(60)}.${"z".repeat(60)}.example.com`));
  rig.run();
  await rig.pass(15);
  assert.equal(rig.sent.length, 1);
  assert.match(rig.sent[0]?.note ?? "", /and 9995 more are not mapped \(no-target\): no known ingress controller/);
  assert.ok(Buffer.byteLength(rig.sent[0]?.note ?? "") <= 1_024);
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

test("when 2,000 namespaces lose their target at once, each gets its Event", async () => {
  const rig = claimEventsRig();
  rig.lead();
  const set = (target: string | typeof NO_TARGET) => {
    for (let index = 0; index < 2_000; index++) rig.set(`ns-${index}/web`, { [`n${index}.example.com`]: target });
    rig.run();
  };
  set("nginx");
  await rig.pass(61);
  set(NO_TARGET);
  await rig.pass(12);
  assert.deepEqual([rig.sent.length, new Set(rig.sent.map(({ namespace }) => namespace)).size], [2_000, 2_000]);
});
