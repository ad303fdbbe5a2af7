import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { FindingStatus } from "#doctor/findings.ts";
import { reportDocument } from "#doctor/report.ts";
import { fullStatus, NAME, REFUSED, WORKLOAD } from "#test/fakes/full-status.ts";
import { StatusChanges } from "../server/changes.ts";
import type { Components } from "../server/messages.ts";
import { levelOf, noticesOf, onlyWrongName } from "./notices.ts";
import { PageState, type View } from "./state.ts";

const known = <T>(value: T) => ({ known: true, value }) as const;
const MISSING = { known: false, reason: { code: "right-missing", text: "t" } } as const;
const NOW = 1_000_000_000_000;
const PROXY_DOWN = "deployment-not-ready: switchback-proxy: 0 of 2 pods are ready: connections to mapped names fail";

function viewOf(...[change, running]: Parameters<typeof fullStatus>): View {
  const state = new PageState();
  const status = fullStatus({ names: [NAME], ...change }, running);
  for (const message of new StatusChanges().take(status, NOW)) state.take(message);
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

test("a healthy cluster has no notices, and neither has a cluster that the page knows nothing about yet", () => {
  assert.deepEqual(texts(viewOf()), []);
  assert.deepEqual(
    texts({ ...viewOf(), components: runs(2, 2), measured: known({ certificates: { ca: NOW }, upstreams: [] }) }),
    [],
  );
  assert.deepEqual(texts(new PageState().view), []);
});

test("without the right to read the status, the page still reports components that are not ready", () => {
  const view = { ...new PageState().view, trouble: "Forbidden", components: runs(0, 2) };
  assert.deepEqual(texts(view), [PROXY_DOWN, "Not known: status (Forbidden)."]);
});

test("each reason why parts cannot be read is one notice, because they may be broken", () => {
  const components = { ...runs(2, 2), agents: MISSING, publishers: MISSING };
  const measured = { known: false, reason: { code: "right-missing", text: "u" } } as const;
  assert.deepEqual(texts({ ...viewOf(), components, measured }), [
    "Not known: agents, publishers (t).",
    "Not known: metrics (u).",
  ]);
});

test("certificates that are not maintained are a notice", () => {
  const measured = known({ certificates: {}, upstreams: [], rotation: "issued", rotationFails: true });
  assert.match(texts({ ...viewOf(), measured }).join(), /^Certificates are not maintained \(issued\)/);
});

test("a stuck workload is a notice only while some of its pods lack names", () => {
  assert.equal(texts(viewOf({}, { workloads: [WORKLOAD] })).length, 1);
  assert.deepEqual(texts(viewOf({}, { workloads: [{ ...WORKLOAD, stale: 0 }] })), []);
  assert.deepEqual(texts(viewOf({}, { workloads: [{ ...WORKLOAD, standing: "waiting" }] })), []);
});

test("replicas that are not ready, failing dials, and certificates that end within a day are notices", () => {
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

test("a component that is missing or scaled to 0 is urgent, as in the doctor", () => {
  const urgent = (...deployments: ReturnType<typeof deployment>[]) =>
    noticesOf({ ...viewOf(), components: { ...runs(2, 2), deployments: known(deployments) } }, NOW).map(
      ({ urgent: isUrgent, what }) => [isUrgent, typeof what === "string" ? what : what.code],
    );
  assert.deepEqual(urgent(...CORE), [[true, "deployment-missing"]]);
  assert.deepEqual(urgent(...CORE, deployment("proxy", 0, 0)), [[true, "deployment-not-ready"]]);
  assert.deepEqual(urgent(deployment("all", 0, 0)), [[true, "deployment-not-ready"]]);
  // An extra that is switched off may stay at 0 replicas.
  const proxy = deployment("proxy", 2, 2);
  assert.deepEqual(urgent(...CORE, proxy, deployment("dns-a", 0, 0)), []);
  assert.deepEqual(urgent(...CORE, proxy, deployment("dns-a", 0, 1)), [[true, "deployment-not-ready"]]);
});

test("what the controller does not know, holds back or warns about is a notice", () => {
  const sources = [{ name: "s", synced: false, problems: [{ place: "p", code: "c", text: "t" }] }];
  const hold = { since: 0, until: NOW, names: 3, of: 4 };
  const found = texts(
    viewOf(
      { leader: false, revision: undefined, hold, sources, warnings: [{ code: "w", text: "x" }] },
      { unknown: "u" },
    ),
  );
  assert.deepEqual(
    found.map((text) => text.slice(0, 18)),
    [
      "no-leader: control",
      "source-not-synced:",
      "removal-held: cont",
      "w: controller: x",
      "The state of pods ",
      "c: p: t",
    ],
  );
});

test("many broken objects of one tenant do not hide other notices", () => {
  const problems = Array.from({ length: 10_000 }, (_, index) => ({ place: `p${index}`, code: "c", text: "t" }));
  const found = texts(viewOf({ sources: [{ name: "s", synced: true, problems }] }, { workloads: [WORKLOAD] }));
  assert.equal(found[0], "Stuck workloads: 1. The view Workloads has each reason.");
  assert.deepEqual(found.slice(10), ["c: p9: t", "The source s has 9990 more problems: switchback status lists them."]);
});

test("a new leader that has not published a map yet is a notice, but not urgent", () => {
  const [notice, ...more] = noticesOf(viewOf({ revision: undefined }), NOW);
  assert.deepEqual([notice?.urgent, more], [false, []]);
  assert.match(String(notice?.what), /^The leader has not published a map yet/);
});

test("urgent notices come first: failing connections, and names that are about to go", () => {
  const hold = { since: 0, until: NOW, names: 3, of: 4 };
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
      [true, "deployment-not-ready"],
      [true, "no-leader"],
      [true, "removal-held"],
      [false, "w"],
      [false, "Stuck work"],
      [false, "taken-back"],
    ],
  );
});

describe("what the doctor found", () => {
  const AWAY = { known: false, reason: { code: "not-read", text: "nothing listens there" } } as const;
  const finding = (status: FindingStatus, check: string, code: string) => {
    return { status, check, code, subject: "s", evidence: "e", cures: status === "ok" ? [] : ["c"] };
  };
  const examined = (...findings: ReturnType<typeof finding>[]) => ({
    at: NOW,
    report: known(reportDocument(findings)),
  });
  const healthy: View = { ...viewOf(), canExamine: true, components: runs(2, 2) };
  const levelAfter = (...findings: ReturnType<typeof finding>[]) => {
    const view = { ...healthy, examined: examined(...findings) };
    return levelOf(view, noticesOf(view, NOW));
  };

  test("decides the level, which is not good before the doctor has run", () => {
    assert.equal(levelOf(healthy, noticesOf(healthy, NOW)), "unknown");
    assert.equal(levelAfter(finding("ok", "webhook", "webhook-answers")), "good");
    assert.equal(levelAfter(finding("warning", "names", "name-elsewhere")), "warn");
    assert.equal(levelAfter(finding("broken", "admission", "webhook-blocks")), "bad");
    assert.equal(levelAfter(finding("unknown", "pods", "right-missing")), "warn");
  });

  test("is not repeated if the page itself reads it more often", () => {
    assert.equal(levelAfter(finding("broken", "install", "deployment-not-ready")), "good");
    assert.equal(levelAfter(finding("broken", "controller", "no-leader")), "good");
  });

  test("comes with its cure, and everything that was not checked is one notice", () => {
    const unknown = [finding("unknown", "pods", "right-missing"), finding("unknown", "names", "right-missing")];
    const view = { ...healthy, examined: examined(finding("warning", "names", "name-elsewhere"), ...unknown) };
    assert.deepEqual(noticesOf(view, NOW), [
      { urgent: false, what: { code: "name-elsewhere", text: "s: e" }, cures: ["c"] },
      {
        urgent: false,
        what: { code: "right-missing", text: "not checked: s: e; and 1 more: the view Doctor has each" },
      },
    ]);
  });

  test("an unreachable API server is one notice, whatever reason each part has", () => {
    const timeout = { known: false, reason: { code: "not-read", text: "no answer within 30 s" } } as const;
    const components = { deployments: AWAY, agents: timeout, upstreams: AWAY, publishers: AWAY };
    const report = { at: NOW, report: timeout };
    const view = { ...healthy, trouble: "nothing listens there", components, measured: AWAY, examined: report };
    const [notice, ...more] = texts(view);
    assert.match(
      notice ?? "",
      /^Nothing can be read from the cluster\. The page shows the data of .* Pods keep their names/,
    );
    assert.deepEqual(more, []);
    // The Deployments that were read last still count.
    const { deployments } = runs(0, 2);
    const lost = { ...view, ...(deployments.known && { lastDeployments: deployments.value }) };
    assert.deepEqual(texts(lost), [PROXY_DOWN, notice]);
    // Only the controller is unreachable.
    assert.deepEqual(texts({ ...healthy, trouble: "503" }), ["Not known: status (503)."]);
  });
});

test("a name is found if it is the only problem, but not if there is another one", () => {
  const only = (change: Parameters<typeof viewOf>[0], more: Partial<View> = {}) => {
    const view = { ...viewOf(change), ...more };
    return onlyWrongName(view, noticesOf(view, NOW))?.name;
  };
  const warned = { ...NAME, name: "w.example.com", warning: { code: "dns-elsewhere", text: "t" } };
  assert.equal(only({ names: [NAME] }), undefined);
  assert.equal(only({ names: [NAME, REFUSED] }), REFUSED.name);
  assert.equal(only({ names: [NAME, warned] }), warned.name);
  assert.equal(only({ names: [REFUSED, warned] }), undefined);
  assert.equal(only({ names: [NAME, REFUSED] }, { components: runs(0, 2) }), undefined);
  // A name with the reason `wildcard` is not a problem.
  assert.equal(only({ names: [{ ...REFUSED, reason: { code: "wildcard", text: "t" } }] }), undefined);
});
