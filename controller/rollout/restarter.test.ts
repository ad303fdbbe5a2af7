import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { refusal } from "#test/fakes/memory-kube.ts";
import {
  deploymentPath,
  FIRST,
  inStep,
  podsPath,
  RECORD,
  restartRig,
  SECOND,
  STAMP,
  times,
  WEB,
} from "#test/fakes/restart-rig.ts";
import { rolloutStatus } from "./report.ts";

const namesOf = (rig: ReturnType<typeof restartRig>, name: string) =>
  (rig.api.field<{ hostAliases: { hostnames: string[] }[] }>(`${podsPath()}/${name}-0`, "spec").hostAliases ?? [])
    .flatMap(({ hostnames }) => hostnames)
    .sort();

describe("a new name", () => {
  test("restarts a workload once: its pods get the name, and the record has the time and the cause", async (t) => {
    const rig = await inStep(t);
    rig.publish(SECOND);
    await rig.pass(10_000);
    assert.deepEqual(namesOf(rig, "web"), Object.keys(SECOND));
    assert.deepEqual([rig.codeOf("web"), times(rig)], ["in-step", 1]);
    const { spec, metadata } = rig.api.at(WEB) as never as {
      spec: { template: { metadata: { annotations: Record<string, string> } } };
      metadata: { annotations: Record<string, string> };
    };
    const at = spec.template.metadata.annotations[STAMP];
    assert.deepEqual(JSON.parse(metadata.annotations[RECORD] ?? ""), { version: 1, restarts: [{ at, by: ["shop"] }] });
    const [patch] = rig.api.writes;
    assert.deepEqual([patch?.method, patch?.fieldManager], ["PATCH", "switchback-restart"]);
    assert.deepEqual([rig.counted, rig.events.map(({ reason }) => reason)], [["restarted"], ["Restarting"]]);
    assert.equal(rolloutStatus(rig.running.pods).underWay, undefined);
  });

  test("waits until the names are stable, but not for ever", async (t) => {
    const rig = await inStep(t);
    for (let index = 0; index < 8; index += 1) {
      rig.publish({ ...FIRST, [`name-${index}.example.com`]: "shop" });
      await rig.pass(1_500);
      if (index === 1) assert.equal(rig.codeOf("web"), "delayed");
      assert.equal(times(rig), 0);
    }
    for (let index = 8; index < 14; index += 1) {
      rig.publish({ ...FIRST, [`name-${index}.example.com`]: "shop" });
      await rig.pass(1_500);
    }
    assert.equal(times(rig), 1);
  });

  test("restarts nothing outside of the listed namespaces, and a workload that has the lines already", async (t) => {
    const rig = await inStep(t);
    rig.api.put("/api/v1/namespaces/far", { metadata: { labels: { "switchback.dev/inject": "enabled" } } });
    rig.deploy("far", { namespace: "far" });
    rig.edit(`${podsPath()}/web-0`, { metadata: { annotations: { "switchback.dev/revision": "forged" } } });
    await rig.pass(5_000);
    assert.deepEqual([rig.codeOf("far"), rig.codeOf("web"), rig.statusOf("web")?.stale], ["in-step", "in-step", 0]);
    rig.publish(SECOND);
    await rig.pass(10_000);
    assert.deepEqual([rig.codeOf("far"), times(rig, "far"), times(rig)], ["restart-not-permitted", 0, 1]);
    assert.ok(!rig.api.reads.some((path) => path.startsWith(deploymentPath("far", "far"))));
    assert.deepEqual(
      rig.events.map(({ reason, regarding }) => [reason, regarding.kind]),
      [
        ["RestartNotPermitted", "Pod"],
        ["Restarting", "Deployment"],
      ],
    );
  });

  test("restarts a workload of which only some pods lack lines", async (t) => {
    const rig = await inStep(t);
    rig.deploy("two", { replicas: 2 });
    await rig.pass(1_000);
    rig.edit(`${podsPath()}/two-0`, { metadata: { annotations: { "switchback.dev/revision": "forged" } } });
    rig.edit(`${podsPath()}/two-1`, {
      metadata: { annotations: { "switchback.dev/revision": null } },
      spec: { hostAliases: [] },
    });
    await rig.pass(10_000);
    assert.deepEqual([rig.codeOf("two"), times(rig, "two")], ["in-step", 1]);
  });

  test("restarts 500 workloads one at a time, the longest wait first", async (t) => {
    const rig = restartRig(t);
    rig.publish(FIRST);
    for (let index = 0; index < 500; index += 1) rig.deploy(`web-${index}`);
    const { running, codeOf } = rig.lead();
    await rig.pass(1_000);
    rig.edit(`${podsPath()}/web-400-0`, { metadata: { annotations: { "switchback.dev/revision": null } } });
    rig.edit(`${podsPath()}/web-400-0`, { spec: { hostAliases: [] } });
    rig.world.injects = true;
    rig.world.startMs = 3_000;
    await rig.pass(1_000);
    rig.publish(SECOND);
    await rig.pass(60_000, 500);
    const isCounted = () => {
      const { waiting, underWay } = rolloutStatus(running.pods);
      return waiting + rig.world.restarts.length - (underWay ? 1 : 0) === 500;
    };
    // A slow machine evaluates them in more turns of the event loop.
    for (let turns = 0; turns < 100 && !isCounted(); turns += 1) await rig.pass(0);
    const { underWay, counts, workloads } = rolloutStatus(running.pods);
    assert.equal(rig.world.restarts[0]?.name, "web-400");
    assert.ok(rig.world.restarts.length >= 10, `${rig.world.restarts.length}`);
    const gaps = rig.world.restarts.map(({ at }, index) => at - (rig.world.restarts[index - 1]?.at ?? 0));
    assert.ok(gaps.slice(1).every((gap) => gap >= 3_000));
    assert.deepEqual([counts.workloads, isCounted()], [500, true]);
    assert.equal(workloads.filter(({ code }) => code === "restarting").length, underWay ? 1 : 0);
    assert.equal(codeOf("web-499"), "delayed");
  });
});

describe("a workload waits, and says why,", () => {
  test("while its rollout is paused, and is read again every 2 s", async (t) => {
    const rig = await inStep(t);
    rig.edit(WEB, { spec: { paused: true } });
    rig.publish(SECOND);
    await rig.pass(30_000);
    assert.deepEqual([rig.codeOf("web"), rig.statusOf("web")?.standing, times(rig)], ["not-restartable", "stuck", 0]);
    rig.deploy("other");
    const reads = rig.api.reads.length;
    for (let change = 0; change < 20; change += 1) {
      rig.edit(`${podsPath()}/other-0`, { metadata: { annotations: { "switchback.dev/restartedAt": `${change}` } } });
      await rig.pass(200);
    }
    const looks = rig.api.reads.slice(reads).filter((path) => path === WEB).length;
    assert.ok(looks >= 1 && looks <= 3, `${looks} looks in 4 s, whatever else changes`);
    rig.edit(WEB, { spec: { paused: null } });
    await rig.pass(5_000);
    assert.equal(times(rig), 1);
  });

  test("while it is deleted, or not every replica is available", async (t) => {
    const rig = await inStep(t);
    rig.report(WEB, true);
    rig.world.broken.add("web");
    rig.publish(SECOND);
    await rig.pass(30_000);
    assert.deepEqual([rig.codeOf("web"), times(rig)], ["not-available", 0]);
    rig.edit(WEB, { metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } });
    await rig.pass(5_000);
    assert.deepEqual([rig.codeOf("web"), times(rig)], ["not-restartable", 0]);
    rig.api.remove(WEB);
    await rig.pass(5_000);
    assert.equal(rig.codeOf("web"), "not-available");
  });

  test("while its pods are not available for another reason than its last restart, which was complete", async (t) => {
    const rig = await inStep(t);
    rig.publish(SECOND);
    await rig.pass(10_000);
    assert.equal(times(rig), 1);
    await rig.pass(3_600_000, 10_000);
    rig.report(WEB, true);
    rig.world.broken.add("web");
    rig.publish({ ...SECOND, "third.example.com": "shop" });
    await rig.pass(30_000);
    assert.deepEqual([rig.codeOf("web"), times(rig)], ["not-available", 1]);
  });

  test("without a Role in its namespace, and if the API server refuses the restart", async (t) => {
    const rig = await inStep(t);
    rig.api.refuse(WEB, 403);
    rig.publish(SECOND);
    await rig.pass(5_000);
    assert.equal(rig.codeOf("web"), "restart-rights-missing");
    rig.api.refuse(WEB, undefined);
    rig.api.onWrite = ({ path }) => {
      throw refusal(path, 403);
    };
    await rig.pass(5_000);
    assert.deepEqual([rig.codeOf("web"), rig.counted], ["restart-turn-failed", []]);
  });

  test("with `on-change: none` on the pod, the workload or the namespace", async (t) => {
    for (const path of [`${podsPath()}/web-0`, WEB, "/api/v1/namespaces/shop"]) {
      const rig = await inStep(t);
      rig.edit(path, { metadata: { annotations: { "switchback.dev/on-change": "none" } } });
      rig.publish(SECOND);
      await rig.pass(10_000);
      assert.deepEqual([rig.codeOf("web"), times(rig)], ["on-change-none", 0], path);
      await rig.end();
      t.mock.timers.reset();
    }
  });

  test("ten minutes if names were only removed, and not at all if they come back", async (t) => {
    const rig = await inStep(t);
    rig.publish(SECOND);
    await rig.pass(60_000, 500);
    rig.publish(FIRST);
    await rig.pass(300_000, 5_000);
    assert.deepEqual([rig.codeOf("web"), times(rig)], ["delayed", 1]);
    rig.publish(SECOND);
    await rig.pass(5_000);
    assert.equal(rig.codeOf("web"), "in-step");
    rig.publish(FIRST);
    await rig.pass(620_000, 5_000);
    assert.deepEqual([rig.codeOf("web"), times(rig)], ["in-step", 2]);
  });

  test("while its stale pods end, or are gone", async (t) => {
    for (const metadata of [{ deletionTimestamp: "2026-01-01T00:00:00Z" }, undefined]) {
      const rig = await inStep(t);
      const { get } = rig.api.client;
      // The watch is behind.
      rig.api.client.get = async <T>(path: string, ...rest: []) => {
        if (path !== `${podsPath()}/web-0`) return await get<T>(path, ...rest);
        if (metadata === undefined) throw refusal(path, 404);
        return { metadata } as T;
      };
      rig.publish(SECOND);
      await rig.pass(10_000);
      assert.deepEqual([rig.codeOf("web"), times(rig)], ["not-available", 0]);
      await rig.end();
      t.mock.timers.reset();
    }
  });

  test("while the API server cannot call the webhook, or its configuration is missing", async (t) => {
    const configuration = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/switchback-webhook";
    const rig = await inStep(t);
    const { mergePatch } = rig.api.client;
    let isAway = true;
    rig.api.client.mergePatch = async (path, body, options) => {
      if (options?.dryRun && isAway) throw refusal(path, 500);
      return await mergePatch(path, body, options);
    };
    rig.publish(SECOND);
    await rig.pass(10_000);
    assert.deepEqual([rig.codeOf("web"), times(rig)], ["webhook-unreachable", 0]);
    isAway = false;
    rig.api.remove(configuration);
    await rig.pass(10_000);
    assert.deepEqual([rig.codeOf("web"), times(rig)], ["webhook-unreachable", 0]);
    rig.api.put(configuration, {});
    await rig.pass(5_000);
    assert.deepEqual([rig.codeOf("web"), times(rig)], ["in-step", 1]);
  });
});
