import assert from "node:assert/strict";
import { test } from "node:test";
import { fullStatus, WORKLOAD } from "#test/fakes/full-status.ts";
import { StatusChanges } from "../server/changes.ts";
import type { Components } from "../server/messages.ts";
import { noticesOf } from "./notices.ts";
import { PageState, type View } from "./state.ts";

const known = <T>(value: T) => ({ known: true, value }) as const;
const MISSING = { known: false, reason: { code: "right-missing", text: "t" } } as const;
const NOW = 1_000_000_000_000;
const PROXY_DOWN = "deployment-not-ready: switchback-proxy: 0 of 2 pods are ready: connections to mapped names fail";

function viewOf(...[change, running]: Parameters<typeof fullStatus>): View {
  const state = new PageState();
  for (const message of new StatusChanges().take(fullStatus(change, running), NOW)) state.take(message);
  return state.view;
}

const texts = (view: View) =>
  noticesOf(view, NOW).map(({ what }) => (typeof what === "string" ? what : `${what.code}: ${what.text}`));
const deployment = (name: string, ready: number, desired: number) => ({
  name: `switchback-${name}`,
  ready,
  desired,
  image: "i",
  pullPolicy: "Always",
});
const CORE = [deployment("controller", 2, 2), deployment("webhook", 2, 2)];
const runs = (ready: number, desired: number): Components => ({
  deployments: known([...CORE, deployment("proxy", ready, desired)]),
  agents: known([]),
  upstreams: known([]),
  publishers: known([]),
});

test("a healthy cluster has none; neither has one of which nothing is known yet", () => {
  assert.deepEqual(texts(viewOf()), []);
  assert.deepEqual(
    texts({ ...viewOf(), components: runs(2, 2), measured: known({ certificates: { ca: NOW }, upstreams: [] }) }),
    [],
  );
  assert.deepEqual(texts(new PageState().view), []);
});

test("who may not read the status still learns what runs short", () => {
  const view = { ...new PageState().view, trouble: "Forbidden", components: runs(0, 2) };
  assert.deepEqual(texts(view), [PROXY_DOWN]);
});

test("what may not be read is said, once for each reason: it may be broken", () => {
  const components = { ...runs(2, 2), agents: MISSING, publishers: MISSING };
  const measured = { known: false, reason: { code: "right-missing", text: "u" } } as const;
  assert.deepEqual(texts({ ...viewOf(), components, measured }), [
    "Not known: agents, publishers (t).",
    "Not known: metrics (u).",
  ]);
});

test("certificates that are not maintained", () => {
  const measured = known({ certificates: {}, upstreams: [], rotation: "leaf-due", rotationFails: true });
  assert.match(texts({ ...viewOf(), measured }).join(), /^Certificates are not maintained \(leaf-due\)/);
});

test("a workload is stuck while pods of it lack names, and no longer", () => {
  assert.equal(texts(viewOf({}, { workloads: [WORKLOAD] })).length, 1);
  assert.deepEqual(texts(viewOf({}, { workloads: [{ ...WORKLOAD, stale: 0 }] })), []);
  assert.deepEqual(texts(viewOf({}, { workloads: [{ ...WORKLOAD, standing: "waiting" }] })), []);
});

test("replicas that are not ready, dials that fail, and certificates that end within a day", () => {
  const upstreams = [
    { target: "a", port: "443", good: 1, failing: 1 },
    { target: "b", port: "443", good: 2, failing: 0 },
  ];
  const measured = known({ certificates: { serving: NOW / 1_000 + 86_000, ca: NOW / 1_000 + 87_000 }, upstreams });
  const found = texts({ ...viewOf(), components: runs(0, 2), measured });
  assert.deepEqual(found.slice(0, 2), [
    PROXY_DOWN,
    "dial-failing: target a, port 443: the last dial failed for 1 of 2 replicas of the proxy",
  ]);
  assert.match(found[2] ?? "", /^The serving certificate ends /);
  assert.equal(found.length, 3);
  assert.equal(
    texts({ ...viewOf(), components: runs(1, 2) })[0],
    "deployment-degraded: switchback-proxy: 1 of 2 pods are ready",
  );
});

test("a component that is missing or scaled to 0 is urgent, as the doctor has it", () => {
  const urgent = (...deployments: ReturnType<typeof deployment>[]) =>
    noticesOf({ ...viewOf(), components: { ...runs(2, 2), deployments: known(deployments) } }, NOW).map(
      ({ urgent: isUrgent, what }) => [isUrgent, typeof what === "string" ? what : what.code],
    );
  assert.deepEqual(urgent(...CORE), [[true, "deployment-missing"]]);
  assert.deepEqual(urgent(...CORE, deployment("proxy", 0, 0)), [[true, "deployment-not-ready"]]);
  assert.deepEqual(urgent(deployment("all", 0, 0)), [[true, "deployment-not-ready"]]);
  // An extra that is off may stay at 0.
  const proxy = deployment("proxy", 2, 2);
  assert.deepEqual(urgent(...CORE, proxy, deployment("dns-a", 0, 0)), []);
  assert.deepEqual(urgent(...CORE, proxy, deployment("dns-a", 0, 1)), [[true, "deployment-not-ready"]]);
});

test("what the controller does not know, holds back or warns of", () => {
  const sources = [{ name: "s", synced: false, problems: [{ place: "p", code: "c", text: "t" }] }];
  const hold = { id: "x", since: 0, until: NOW, names: 3, of: 4 };
  const found = texts(
    viewOf(
      { leader: false, revision: undefined, hold, sources, warnings: [{ code: "w", text: "x" }] },
      { unknown: "u" },
    ),
  );
  assert.deepEqual(
    found.map((text) => text.slice(0, 18)),
    ["The removal of 3 o", "No controller is t", "The source s is no", "c: p: t", "w: x", "The state of pods "],
  );
});

test("a tenant's many broken objects hide nothing else", () => {
  const problems = Array.from({ length: 10_000 }, (_, index) => ({ place: `p${index}`, code: "c", text: "t" }));
  const found = texts(viewOf({ sources: [{ name: "s", synced: true, problems }] }, { workloads: [WORKLOAD] }));
  assert.deepEqual(found.slice(9), [
    "c: p9: t",
    "The source s has 9990 more problems: switchback status lists them.",
    "1 workload stays behind until somebody acts: the view Workloads says why.",
  ]);
});

test("a leader that has just begun has published nothing, which is not urgent", () => {
  const [notice, ...more] = noticesOf(viewOf({ revision: undefined }), NOW);
  assert.deepEqual([notice?.urgent, more], [false, []]);
  assert.match(String(notice?.what), /^The leader has not published a map yet/);
});

test("what is urgent comes first: connections that fail, names that are about to go", () => {
  const hold = { id: "x", since: 0, until: NOW, names: 3, of: 4 };
  const report = { name: "coredns", place: "kube-system", names: 3, leftOut: 1, behindSince: undefined };
  const publishers = known([
    { ...report, problem: { code: "taken-back", text: "by kubectl" } },
    { ...report, problem: undefined },
  ]);
  const view = viewOf({ leader: false, hold, warnings: [{ code: "w", text: "x" }] }, { workloads: [WORKLOAD] });
  const found = noticesOf({ ...view, components: { ...runs(0, 2), publishers } }, NOW);
  assert.deepEqual(
    found.map(({ urgent, what }) => [urgent, typeof what === "string" ? what.slice(0, 10) : what.code]),
    [
      [true, "The remova"],
      [true, "deployment-not-ready"],
      [false, "No control"],
      [false, "w"],
      [false, "taken-back"],
      [false, "1 workload"],
    ],
  );
});
