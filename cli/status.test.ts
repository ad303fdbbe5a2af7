import assert from "node:assert/strict";
import { after, afterEach, before, describe, test } from "node:test";
import type { WorkloadStatus } from "../controller/rollout/rollout-status.ts";
import { captured, filesFolder } from "../test/fakes/cli.ts";
import { type FakeApi, fakeApi, json } from "../test/fakes/kube-api.ts";
import type { FullStatus } from "./leader-status.ts";
import { selectWorkloads } from "./restart.ts";
import { isStuck, renderStatus, status } from "./status.ts";

const WORKLOAD: WorkloadStatus = {
  namespace: "cert-manager",
  kind: "Deployment",
  name: "cert-manager",
  pods: 2,
  stale: 1,
  notInjected: 1,
  mode: "restart",
  modeFrom: "install",
  standing: "stuck",
  code: "restart-not-permitted",
  text: "not listed",
  lastRestart: undefined,
  warnings: [],
};

function full(...workloads: WorkloadStatus[]): FullStatus {
  const from = { kind: "Ingress", namespace: "shop", name: "web" };
  const since = "2026-01-01T00:00:00Z";
  const mapped = { name: "b.example.com", from, since, target: "edge", addresses: ["198.51.100.9"], reason: undefined };
  const refused = { code: "no-target", text: "no class \u001b[31m" };
  const leader = {
    leader: true,
    identity: "controller-0",
    revision: "abc",
    warnings: [],
    names: [mapped, { ...mapped, name: "a.example.com", target: undefined, addresses: [], reason: refused }],
    running: {
      unknown: undefined,
      dryRun: false,
      underWay: undefined,
      waiting: 3,
      restartsLastHour: 2,
      restartsToday: 2,
      workloads,
    },
  };
  return leader as unknown as FullStatus;
}

test("lists names in order, with target, object, age and reason; escapes control characters from tenants", () => {
  const lines = renderStatus(full()).split("\n");
  const [a, b] = lines.filter((line) => line.includes("example.com"));
  assert.match(
    a ?? "",
    /^ {2}a\.example\.com +- +Ingress shop\/web +2026-01-01T00:00:00Z +no-target: no class \\u\{1b\}\[31m$/,
  );
  assert.match(b ?? "", /^ {2}b\.example\.com +edge 198\.51\.100\.9 +Ingress shop\/web +2026-01-01T00:00:00Z$/);
});

test("shows why a workload is stuck and how many of its pods were not injected, and the rollout summary", () => {
  const text = renderStatus(full(WORKLOAD));
  assert.match(
    text,
    /cert-manager\/Deployment\/cert-manager +1\/2 +stuck +restart +- +restart-not-permitted: not listed; 1 not injected/,
  );
  assert.match(text, /restarting now: none; waiting: 3; restarts in the last hour: 2/);
});

test("only a workload that is both stale and stuck is a failure", () => {
  assert.equal(isStuck(full(WORKLOAD)), true);
  assert.equal(isStuck(full({ ...WORKLOAD, standing: "waiting" })), false);
  assert.equal(isStuck(full({ ...WORKLOAD, stale: 0 })), false);
});

test("restart selects the stale workloads of a namespace, or the named one", () => {
  const current = { ...WORKLOAD, name: "webhook", stale: 0 };
  const bare = { ...WORKLOAD, kind: "Pod", name: "bare" };
  const all = [WORKLOAD, current, bare, { ...WORKLOAD, namespace: "other" }];
  assert.deepEqual(selectWorkloads("cert-manager", all), [WORKLOAD]);
  assert.deepEqual(selectWorkloads("cert-manager/cert-manager", all), [WORKLOAD]);
  assert.deepEqual(selectWorkloads("cert-manager/webhook", all), []);
  assert.throws(() => selectWorkloads("cert-manager/bare", all), /is a Pod: delete its pods/);
  assert.throws(() => selectWorkloads("cert-manager/none", all), /no opted-in pods found/);
  assert.throws(() => selectWorkloads("a/b/c", all), /expected NAMESPACE or NAMESPACE\/WORKLOAD/);
  assert.throws(() => selectWorkloads("cert-manager", undefined), /no controller is the leader/);
});

test("says that there are no names and no workloads", () => {
  const text = renderStatus({ ...full(), names: [] });
  assert.match(text, /\nNames\n {2}none\n\nOpted-in workloads\n {2}none\n$/);
});

describe("status", () => {
  let files: Awaited<ReturnType<typeof filesFolder>>;
  let api: FakeApi;
  before(async () => {
    files = await filesFolder();
  });
  after(() => files.remove());
  afterEach(() => api.close());

  async function run(output: "text" | "json", leader: FullStatus) {
    api = await fakeApi(json(leader));
    const { context, written } = captured();
    const kubeconfig = await files.kubeconfig(api.url);
    return { code: await status({ namespace: "ours", kubeconfig, output }, context), ...written };
  }

  test("prints the tables once, and exits with 1 if a workload is stuck", async () => {
    const stuck = full(WORKLOAD);
    assert.deepEqual(await run("text", stuck), { code: 1, stdout: renderStatus(stuck), stderr: "" });
    assert.equal(api.calls.length, 1);
    assert.match(api.calls[0]?.path ?? "", /\/namespaces\/ours\//);
  });

  test("prints what the leader says as indented JSON, and exits with 0 if nothing is stuck", async () => {
    const good = full({ ...WORKLOAD, stale: 0 });
    const { code, stdout } = await run("json", good);
    assert.equal(code, 0);
    assert.equal(stdout, `${JSON.stringify(JSON.parse(JSON.stringify(good)), null, 2)}\n`);
  });
});
