import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { enoughToRestart, type Following, startFollowing } from "./following.ts";
import type { Kubelet } from "./kubelet.ts";
import { mapped, workload } from "./objects.ts";
import { recordRollouts } from "./rollouts.ts";
import { type System, until } from "./system.ts";

// The limits of restarts, each by itself, on a real API server with the real Deployment controller.

const NS = "bounds";
const INTERVAL_SECONDS = 15;
const VANISHED_SECONDS = 20;
const RESTART = {
  namespaces: [NS],
  debounceSeconds: 1,
  minIntervalSeconds: INTERVAL_SECONDS,
  maxIntervalSeconds: INTERVAL_SECONDS,
  dailyBudget: 2,
  vanishedSeconds: VANISHED_SECONDS,
};
let system: System;
let kubelet: Kubelet;
let follow: Following;

const values = (restart: object) => ({ config: { restart, map: { vanishSeconds: 1 } } });

before(async () => {
  ({ system, kubelet, follow } = await startFollowing(NS, { values: values(RESTART) }));
});
after(async () => {
  await kubelet?.stop();
  await system?.stop();
});

/** Creates a workload, and waits until it is in step. */
async function made(name: string, spec: object = {}, kind = "Deployment"): Promise<void> {
  await system.apply(workload(kind, name, NS, { spec }));
  await until(`${name} to run`, async () => {
    const pods = await follow.pods(name);
    return pods.length > 0 && pods.every(({ status }) => status.phase === "Running");
  });
  await follow.codeIs(name, "in-step");
}

const gone = (name: string, kind = "Deployment") => system.kubectl("-n", NS, "delete", kind, name);
const patch = (name: string, spec: object, kind = "Deployment") =>
  system.kubectl("-n", NS, "patch", kind, name, "--type=merge", "-p", JSON.stringify({ spec }));

/** Waits until all pods of a workload have the name, and it is in step. */
async function hasFollowed(name: string, hostname: string): Promise<void> {
  await until(`${name} to have ${hostname}`, () => follow.haveName(name, hostname));
  await follow.codeIs(name, "in-step");
}

async function lastRestart(name: string): Promise<number> {
  return Date.parse((await follow.statusOf(name))?.lastRestart ?? "never");
}

describe("a restart", () => {
  it("that its owner reverts counts in the daily budget, and starts anew after a restart by hand", async () => {
    const revert = (name: string) =>
      patch(name, { template: { metadata: { annotations: { "switchback.dev/restartedAt": null } } } });
    await made("owned");
    for (const name of ["reverted-1.example.com", "reverted-2.example.com"]) {
      await follow.addName(name);
      await hasFollowed("owned", name);
      await revert("owned");
      await follow.rolledOut("Deployment", "owned");
    }
    await follow.addName("reverted-3.example.com");
    await follow.codeIs("owned", "budget-spent");
    assert.match((await follow.statusOf("owned"))?.text ?? "", /somebody put the template back/);
    await enoughToRestart();
    assert.equal(await follow.changes("owned"), 4);
    await system.showController();
    const { code, stderr } = await system.cli(["restart", `${NS}/owned`, "--yes"]);
    assert.deepEqual([code, stderr], [0, ""]);
    await hasFollowed("owned", "reverted-3.example.com");
    await follow.addName("cleared.example.com");
    await hasFollowed("owned", "cleared.example.com");
    assert.equal(await follow.changes("owned"), 6);
    await gone("owned");
  });

  it("whose rollout fails is not tried again, and does not block other workloads", async () => {
    await made("fails", { progressDeadlineSeconds: 3 });
    kubelet.broken = /^fails-/;
    await follow.addName("fails.example.com");
    await follow.codeIs("fails", "rollout-failed");
    await made("other");
    await follow.addName("fails-again.example.com");
    await hasFollowed("other", "fails-again.example.com");
    assert.equal((await follow.statusOf("fails"))?.code, "rollout-failed");
    assert.equal(await follow.changes("fails"), 1);
    const metrics = (await (await system.leader()).page("/metrics")).text;
    assert.match(metrics, /^switchback_controller_rollout_failures_total 1$/m);
    kubelet.broken = undefined;
    await gone("fails");
    await gone("other");
  });

  it("skips workloads that are paused, use OnDelete or have a partition", async () => {
    const strategies = {
      "on-delete": { type: "OnDelete" },
      partitioned: { type: "RollingUpdate", rollingUpdate: { partition: 1 } },
    };
    await made("paused");
    await patch("paused", { paused: true });
    for (const [name, updateStrategy] of Object.entries(strategies)) {
      await made(name, { updateStrategy }, "StatefulSet");
    }
    await follow.addName("paused.example.com");
    for (const name of ["paused", ...Object.keys(strategies)]) await follow.codeIs(name, name);
    await enoughToRestart();
    assert.equal(await follow.changes("paused"), 1);
    await patch("paused", { paused: false });
    await hasFollowed("paused", "paused.example.com");
    assert.equal(await follow.changes("paused"), 3);
    for (const name of Object.keys(strategies)) {
      assert.equal(await follow.changes(name, "StatefulSet"), 0);
      await gone(name, "StatefulSet");
    }
    await gone("paused");
  });

  it("waits until every replica is available", async () => {
    await made("partly");
    kubelet.broken = /^partly-/;
    await patch("partly", { replicas: 2 });
    await follow.addName("partly.example.com");
    await follow.codeIs("partly", "not-available");
    await enoughToRestart();
    assert.equal(await follow.changes("partly"), 1);
    kubelet.broken = undefined;
    await hasFollowed("partly", "partly.example.com");
    assert.equal(await follow.changes("partly"), 2);
    await gone("partly");
  });

  it("keeps the minimum interval since the previous one, and the daily budget", async () => {
    await made("often");
    await follow.addName("often-1.example.com");
    await hasFollowed("often", "often-1.example.com");
    const first = await lastRestart("often");
    await follow.addName("often-2.example.com");
    await follow.codeIs("often", "interval");
    await hasFollowed("often", "often-2.example.com");
    const second = await lastRestart("often");
    assert.ok(second - first >= INTERVAL_SECONDS * 1_000, `${second - first} ms`);
    await follow.addName("often-3.example.com");
    await follow.codeIs("often", "budget-spent");
    await delay(INTERVAL_SECONDS * 1_000);
    await follow.codeIs("often", "budget-spent");
    assert.equal(await follow.changes("often"), 2);
    await gone("often");
  });

  it("for names that vanished waits, and does not happen if they come back", async () => {
    await follow.addName("brief.example.com");
    await made("vanished");
    const remove = () => system.kubectl("delete", "ingress", "brief-example-com");
    await remove();
    await follow.codeIs("vanished", "debouncing");
    await follow.addName("brief.example.com");
    await follow.codeIs("vanished", "in-step");
    const removed = Date.now();
    await remove();
    await follow.codeIs("vanished", "debouncing");
    assert.equal(await follow.changes("vanished"), 0);
    await until("it to be without the name", async () => {
      const pods = await follow.pods("vanished");
      return pods.length === 1 && pods.every((pod) => !mapped(pod).includes("brief.example.com"));
    });
    await follow.codeIs("vanished", "in-step");
    assert.ok((await lastRestart("vanished")) - removed >= VANISHED_SECONDS * 1_000);
    assert.equal(await follow.changes("vanished"), 1);
    await gone("vanished");
  });

  it("is one at a time: the next begins when the previous one is rolled out", async () => {
    const names = ["one", "two", "three", "four"];
    for (const name of names) await made(name);
    kubelet.startMs = 1_500;
    const told = await recordRollouts(system, NS);
    await follow.addName("in-turn.example.com");
    for (const name of names) await hasFollowed(name, "in-turn.example.com");
    kubelet.startMs = 0;
    const { restarted, atOnce } = await told();
    assert.deepEqual([...restarted].sort(), [...names].sort());
    assert.equal(atOnce, 1);
    for (const name of names) await gone(name);
  });
});

describe("a dry run", () => {
  it("says what would be restarted, and restarts nothing", async () => {
    await system.install(values({ ...RESTART, dryRun: true }));
    await system.end(await system.leader());
    await system.start("controller");
    await made("dry");
    await follow.addName("dry.example.com");
    await follow.codeIs("dry", "dry-run");
    await enoughToRestart();
    const { running } = await (await system.leader()).status();
    assert.deepEqual([running?.dryRun, running?.waiting, running?.underWay], [true, 1, undefined]);
    assert.equal(await follow.changes("dry"), 0);
    await gone("dry");
  });
});
