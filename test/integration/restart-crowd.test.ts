import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import type { RolloutStatus } from "#controller/rollout/report.ts";
import { type Following, startFollowing } from "./following.ts";
import type { Kubelet } from "./kubelet.ts";
import { workload } from "./objects.ts";
import { recordRollouts } from "./rollouts.ts";
import { type System, until } from "./system.ts";

// 500 workloads that are stale at once, on a real API server.

const NS = "crowd";
const CROWD = 500;
/** Number of restarts to wait for, of 500. */
const SEEN = 5;
let system: System;
let kubelet: Kubelet;
let follow: Following;

before(async () => {
  ({ system, kubelet, follow } = await startFollowing(NS, {
    values: { config: { restart: { namespaces: [NS], debounceSeconds: 1, minIntervalSeconds: 1 } } },
  }));
});
after(async () => {
  await kubelet?.stop();
  await system?.stop();
});

async function running(): Promise<RolloutStatus> {
  const { running: told } = await (await system.leader()).status();
  assert.ok(told);
  return told;
}

async function available(): Promise<number> {
  const path = "jsonpath={.items[*].status.availableReplicas}";
  return (await system.kubectl("-n", NS, "get", "deployments", "-o", path)).split(" ").length;
}

/** How many workloads have this code. */
const count = ({ workloads }: RolloutStatus, code: string) => workloads.filter((each) => each.code === code).length;

it("500 stale workloads are restarted one at a time, and the status reports the progress", async (t) => {
  const names = Array.from({ length: CROWD }, (_, index) => `web-${index}`);
  await system.apply(names.map((name) => workload("Deployment", name, NS)).join(""));
  await until("all to be available", async () => (await available()) === CROWD, 300_000);
  await until("all to be in step", async () => count(await running(), "in-step") === CROWD);
  kubelet.startMs = 2_000;
  const told = await recordRollouts(system, NS);
  await follow.addName("second.example.com");
  await system.showController();
  const samples: RolloutStatus[] = [];
  await until(
    "the first few restarts",
    async () => {
      const sample = await running();
      samples.push(sample);
      return sample.waiting > 0 && count(sample, "in-step") >= SEEN;
    },
    180_000,
  );

  for (const sample of samples) {
    const restarting = sample.workloads.filter(({ code }) => code === "restarting");
    assert.ok(restarting.length <= 1, `${restarting.length} at once`);
    assert.equal(sample.underWay, restarting.map(({ name }) => `${NS}/Deployment/${name}`)[0]);
    const left = count(sample, "in-step");
    if (left < CROWD) assert.equal(sample.waiting, CROWD - left);
  }
  const busy = samples.filter(({ underWay }) => underWay !== undefined);
  assert.ok(busy.length > 0 && busy.every((sample) => count(sample, "its-turn") === sample.waiting - 1));
  t.diagnostic(`${samples.length} samples, ${busy.length} of them with a restart under way`);

  await until("a restart in `switchback status`", async () => {
    const { code, stdout, stderr } = await system.cli(["status", "-o", "wide"]);
    assert.equal(code, 0, stderr);
    const [, name, waiting = "", restarts = ""] =
      /restarting now: (\S+); waiting: (\d+); restarts in the last hour: (\d+)/.exec(stdout) ?? [];
    assert.match(stdout, /its-turn: one workload at a time; \d+ before it/);
    return name?.startsWith(`${NS}/Deployment/`) === true && Number(waiting) + Number(restarts) >= CROWD - 1;
  });
  const { restarted, atOnce } = await told();
  assert.equal(atOnce, 1);
  assert.ok(restarted.length >= SEEN, restarted.join());
  assert.equal(new Set(restarted).size, restarted.length);
});
