import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import type { WorkloadStatus } from "#controller/rollout/report.ts";
import { atTerminal, captured, useFiles } from "#test/fakes/cli.ts";
import { fullStatus } from "#test/fakes/full-status.ts";
import { type FakeApi, type FakeCall, fakeApi, json, noConnections, refuse } from "#test/fakes/kube-api.ts";
import { skipWaits } from "#test/fakes/skipped-waits.ts";
import { restart } from "./restart.ts";

// Refusals for one workload and their effect on the others. test/integration/by-hand.test.ts uses a real API server.

const STAMP = "switchback.dev/restartedAt";

interface Deployment {
  spec: object;
  annotations: Record<string, string>;
  /** Statuses with which the first patches are refused; the later ones get 200. */
  refusals: number[];
  /** Number of reads until the deployment is rolled out. */
  unavailable: number;
  patches: number;
}

const files = useFiles();
let api: FakeApi;
let deployments: Map<string, Deployment>;
let unknown: string | undefined;
let known: () => Partial<WorkloadStatus>[];
beforeEach(async () => {
  deployments = new Map();
  unknown = undefined;
  known = () => [...deployments.keys()].map((name) => ({ name }));
  api = await fakeApi((call) => {
    if (call.path.endsWith("/status")) return json(statusOf(known()))(call);
    return ofDeployment(call);
  });
});
afterEach(() => api.close());

function add(name: string, parts: Partial<Deployment> = {}): Deployment {
  const base = { spec: {}, annotations: {}, refusals: [], unavailable: 0, patches: 0 };
  const deployment = { ...base, ...parts };
  deployments.set(name, deployment);
  return deployment;
}

function statusOf(workloads: readonly Partial<WorkloadStatus>[]): object {
  const reason = { standing: "stuck", code: "budget-spent", text: "" };
  const base = { namespace: "shop", kind: "Deployment", pods: 1, stale: 1, ...reason };
  return {
    ...fullStatus({ names: [] }),
    running: {
      unknown,
      workloads: workloads.map((each) => ({ ...base, ...each })),
      counts: { workloads: 1 },
      omitted: 0,
    },
  };
}

function ofDeployment(call: FakeCall): void | Promise<void> {
  const name = call.path.split("/").at(-1) ?? "";
  const deployment = deployments.get(name);
  if (deployment === undefined) return refuse(404, "NotFound")(call);
  if (call.method === "PATCH") {
    const refusal = deployment.refusals.shift();
    if (refusal !== undefined) return refuse(refusal, "Refused")(call);
    deployment.patches++;
    deployment.annotations = JSON.parse(call.body).spec.template.metadata.annotations;
  }
  const { spec, annotations, patches } = deployment;
  const availableReplicas = call.method === "GET" && deployment.unavailable-- > 0 ? 0 : 1;
  const count = { replicas: 1, updatedReplicas: 1, availableReplicas };
  const body = {
    metadata: { name, uid: name, resourceVersion: "1", generation: patches },
    spec: { ...spec, template: { metadata: { annotations } } },
    status: { observedGeneration: patches, ...count },
  };
  return json(body)(call);
}

async function run(what: string, timeout = 30, yes = true) {
  const { context, written } = captured();
  const kubeconfig = await files.kubeconfig(api.url);
  const exitCode = await restart(
    what,
    { switchbackNamespace: "ours", kubeconfig, timeout, ...(yes && { yes }) },
    context,
  );
  const lines = (text: string) => text.split("\n").filter((line) => line !== "");
  return {
    exitCode,
    out: lines(written.stdout).filter((line) => !line.endsWith("pods stale")),
    err: lines(written.stderr),
  };
}

const patches = () => [...deployments.values()].map((each) => each.patches);

describe("restart", () => {
  it("continues after a paused, OnDelete, forbidden or gone workload, and fails at the end", async () => {
    add("a", { spec: { paused: true } });
    add("b", { spec: { updateStrategy: { type: "OnDelete" } } });
    add("c", { refusals: [403] });
    add("d");
    known = () => ["a", "b", "c", "gone", "d"].map((name) => ({ name }));
    const { exitCode, out, err } = await run("shop");
    assert.deepEqual([exitCode, out, patches()], [1, ["shop/Deployment/d is restarted"], [0, 0, 0, 1]]);
    const expected = [
      /^shop\/Deployment\/a was not restarted: spec\.paused/,
      /^shop\/Deployment\/b was not restarted: its update strategy is OnDelete/,
      /^shop\/Deployment\/c was not restarted: you need permission to get and patch Deployments in shop: .*403/,
      /^shop\/Deployment\/gone was not restarted: .*404/,
    ];
    assert.equal(err.length, expected.length);
    for (const [index, pattern] of expected.entries()) assert.match(err[index] ?? "", pattern);
  });

  it("restarts nothing while the leader does not know the pods", async () => {
    add("a");
    unknown = "the pods of the cluster are not known yet";
    await assert.rejects(run("shop"), {
      code: "kube-unreachable",
      message: /the pods of the cluster are not known yet/,
    });
    assert.deepEqual(patches(), [0]);
  });

  it("retries if somebody changes the workload at the same moment", async () => {
    add("a", { refusals: [409, 409, 409] });
    assert.deepEqual(await run("shop/a"), { exitCode: 0, out: ["shop/Deployment/a is restarted"], err: [] });
    add("a", { refusals: Array(100).fill(409) });
    const { exitCode, err } = await run("shop/a");
    assert.equal(exitCode, 1);
    assert.match(err[0] ?? "", /was not restarted: .*409/);
  });

  it("after a rollout that does not end, restarts no other workload, and names the remaining ones", async (t) => {
    const { elapsed } = skipWaits(t);
    add("a");
    add("b", { unavailable: Number.POSITIVE_INFINITY });
    add("c");
    add("d");
    const { exitCode, out, err } = await run("shop", 1);
    assert.deepEqual([exitCode, out, patches()], [1, ["shop/Deployment/a is restarted"], [1, 1, 0, 0]]);
    assert.deepEqual(err, [
      "shop/Deployment/b was restarted, but the rollout did not finish: 0 of 1 available",
      "stopping; not restarted: shop/Deployment/c, shop/Deployment/d",
    ]);
    assert.equal(elapsed(), 1_000);
  });

  it("does nothing if all pods have the current names", async () => {
    add("a");
    known = () => [{ name: "a", stale: 0 }];
    const out = ["nothing to do: all pods have the current names"];
    assert.deepEqual(await run("shop", 30, false), { exitCode: 0, out, err: [] });
    assert.deepEqual(patches(), [0]);
  });

  for (const [answer, count, said] of [
    ["y", 1, "shop/Deployment/a is restarted\n"],
    ["n", 0, ""],
  ] as const) {
    it(`asks first; after "${answer}" restarts ${count}, and fails if the answer is not yes`, async (t) => {
      add("a");
      known = () => [{ name: "a", pods: 3, stale: 2 }];
      const shows = atTerminal(t, `${answer}\n`);
      const { context, written } = captured();
      const kubeconfig = await files.kubeconfig(api.url);
      const done = restart("shop/a", { switchbackNamespace: "ours", kubeconfig, timeout: 30 }, context);
      if (count === 0)
        await assert.rejects(done, { code: "declined", message: /^declined: nothing was changed.*--yes/ });
      else assert.equal(await done, 0);
      assert.deepEqual([patches(), shows("restart? [y/N] ")], [[count], true]);
      assert.deepEqual(written, { stdout: `shop/Deployment/a: 2 of 3 pods stale\n${said}`, stderr: "" });
      await noConnections(api);
    });
  }

  it("waits for a restart under way, and does not start another", async () => {
    add("b", { unavailable: 2, annotations: { [STAMP]: new Date().toISOString() } });
    const { exitCode, out } = await run("shop");
    assert.deepEqual([exitCode, out, patches()], [0, ["shop/Deployment/b was being restarted already"], [0]]);
  });

  it("restarts a workload that is unavailable for another reason, or still stale after a restart", async () => {
    const old = new Date(Date.now() - 3_600_000).toISOString();
    const broken = add("a", { unavailable: 2, annotations: { [STAMP]: old } });
    assert.deepEqual((await run("shop")).out, ["shop/Deployment/a is restarted"]);
    assert.equal(broken.patches, 1);
    // Restarted and rolled out a moment ago, but its pods are still stale.
    const again = add("b", { annotations: { [STAMP]: new Date().toISOString() } });
    assert.deepEqual((await run("shop/b")).out, ["shop/Deployment/b is restarted"]);
    assert.equal(again.patches, 1);
  });

  it("skips a workload that the controller has restarted in the meantime", async () => {
    add("a");
    add("b", { annotations: { [STAMP]: new Date(Date.now() + 60_000).toISOString() } });
    const { exitCode, out } = await run("shop");
    assert.deepEqual([exitCode, patches()], [0, [1, 0]]);
    assert.equal(out.at(-1), "shop/Deployment/b was being restarted already");
  });
});
