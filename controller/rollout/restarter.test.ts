import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { refusal } from "#test/fakes/memory-kube.ts";
import {
  deploymentPath,
  FIRST,
  HOUR_MS,
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
    const rig = await inStep(t, { debounceSeconds: 2.5 });
    for (let index = 0; index < 8; index += 1) {
      rig.publish({ ...FIRST, [`name-${index}.example.com`]: "shop" });
      await rig.pass(2_000);
      if (index === 1) assert.equal(rig.codeOf("web"), "delayed");
      assert.equal(times(rig), 0);
    }
    for (let index = 8; index < 14; index += 1) {
      rig.publish({ ...FIRST, [`name-${index}.example.com`]: "shop" });
      await rig.pass(2_000);
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

  test("restarts 500 workloads one at a time, the longest wait first", async (t) => {
    const rig = restartRig(t, { debounceSeconds: 0 });
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
    const { waiting, underWay, counts, workloads } = rolloutStatus(running.pods);
    assert.equal(rig.world.restarts[0]?.name, "web-400");
    assert.ok(rig.world.restarts.length >= 10, `${rig.world.restarts.length}`);
    const gaps = rig.world.restarts.map(({ at }, index) => at - (rig.world.restarts[index - 1]?.at ?? 0));
    assert.ok(gaps.slice(1).every((gap) => gap >= 3_000));
    assert.deepEqual([counts.workloads, waiting + rig.world.restarts.length - (underWay ? 1 : 0)], [500, 500]);
    assert.equal(workloads.filter(({ code }) => code === "restarting").length, underWay ? 1 : 0);
    assert.equal(codeOf("web-499"), "its-turn");
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
    assert.deepEqual([rig.codeOf("web"), rig.counted], ["restart-rights-missing", []]);
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

describe("a leader", () => {
  test("that ends during a restart is followed by one that waits for it and repeats nothing", async (t) => {
    const rig = await inStep(t);
    rig.deploy("other");
    rig.world.startMs = 30_000;
    rig.publish(SECOND);
    await rig.pass(5_000);
    assert.equal(rig.world.restarts.length, 1);
    await rig.end();
    const next = rig.lead();
    await rig.pass(10_000);
    const [first = { name: "" }] = rig.world.restarts;
    assert.deepEqual(
      [next.codeOf(first.name), rolloutStatus(next.running.pods).underWay],
      ["restarting", `shop/Deployment/${first.name}`],
    );
    assert.equal(rig.world.restarts.length, 1);
    await rig.pass(120_000, 1_000);
    assert.deepEqual([times(rig), times(rig, "other")], [1, 1]);
  });

  test("that is killed between the patch and its answer is followed by one that repeats nothing", async (t) => {
    const rig = await inStep(t);
    const { mergePatch } = rig.api.client;
    let isLost = true;
    rig.api.client.mergePatch = async (path, body, options) => {
      const answer = await mergePatch(path, body, options);
      if (options?.dryRun || !isLost) return answer as never;
      isLost = false;
      throw refusal(path, 504);
    };
    rig.publish(SECOND);
    await rig.pass(4_000);
    await rig.end();
    const next = rig.lead();
    await rig.pass(HOUR_MS, 5_000);
    assert.deepEqual([next.codeOf("web"), times(rig)], ["in-step", 1]);
  });

  test("meets another change of the workload, and tries again", async (t) => {
    const rig = await inStep(t);
    let conflicts = 2;
    rig.api.onWrite = () => {
      if (conflicts > 0) rig.edit(WEB, { metadata: { annotations: { n: `${conflicts--}` } } });
    };
    rig.publish(SECOND);
    await rig.pass(10_000);
    assert.deepEqual([rig.codeOf("web"), times(rig)], ["in-step", 1]);
    assert.equal(conflicts, 0);
  });

  test("does not restart a workload whose namespace opts out just before the patch", async (t) => {
    const rig = await inStep(t);
    rig.api.onRead = async (path) => {
      if (!path.endsWith("/switchback-webhook")) return;
      rig.edit("/api/v1/namespaces/shop", { metadata: { labels: { "switchback.dev/inject": "disabled" } } });
      await new Promise(setImmediate);
      await new Promise(setImmediate);
    };
    rig.publish(SECOND);
    await rig.pass(10_000);
    assert.equal(times(rig), 0);
  });

  test("restarts no namespace that opts out, and follows a restart to its end when one does", async (t) => {
    const rig = await inStep(t);
    rig.deploy("other");
    rig.world.startMs = 5_000;
    rig.publish(SECOND);
    await rig.pass(4_000);
    rig.edit("/api/v1/namespaces/shop", { metadata: { labels: { "switchback.dev/inject": "disabled" } } });
    await rig.pass(60_000, 500);
    assert.deepEqual([rig.world.restarts.length, rolloutStatus(rig.running.pods).workloads], [1, []]);
    rig.edit("/api/v1/namespaces/shop", { metadata: { labels: { "switchback.dev/inject": "enabled" } } });
    await rig.pass(60_000, 500);
    assert.equal(rig.world.restarts.length, 2);
  });

  test("goes on when a workload is deleted while it restarts, has no replicas, or pods of two revisions", async (t) => {
    const rig = await inStep(t);
    rig.world.startMs = 30_000;
    rig.publish(SECOND);
    await rig.pass(5_000);
    rig.api.remove(WEB);
    rig.api.remove(`${podsPath()}/web-0`);
    rig.world.startMs = 0;
    rig.deploy("none", { replicas: 0 });
    rig.deploy("two", { replicas: 2 });
    rig.edit(`${podsPath()}/two-1`, {
      metadata: { annotations: { "switchback.dev/revision": "old" } },
      spec: { hostAliases: [] },
    });
    await rig.pass(30_000, 500);
    assert.deepEqual([times(rig, "two"), rig.codeOf("two"), rig.statusOf("none")], [1, "in-step", undefined]);
  });

  test("decides nothing before pods, namespaces and a map are known, and says what is missing", async (t) => {
    const rig = restartRig(t);
    const open = rig.api.hold(podsPath());
    rig.deploy("web");
    const { running } = rig.lead();
    await rig.pass(1_000);
    assert.equal(rolloutStatus(running.pods).unknown, "the pods of the cluster are not known yet");
    open();
    await rig.pass(1_000);
    assert.equal(rolloutStatus(running.pods).unknown, "no map is published yet");
    rig.publish(FIRST);
    await rig.pass(1_000);
    const { unknown, workloads } = rolloutStatus(running.pods);
    assert.deepEqual([unknown, workloads.length], [undefined, 1]);
  });

  test("leaves out a workload that cannot be read, and retries a turn that has no answer", async (t) => {
    const rig = await inStep(t);
    rig.deploy("other");
    await rig.pass(1_000);
    rig.api.refuse(WEB, 500);
    rig.publish(SECOND);
    await rig.pass(10_000);
    assert.deepEqual([times(rig, "other"), rig.codeOf("web")], [1, "not-available"]);
    rig.api.refuse(WEB, 0);
    await rig.pass(40_000);
    const failed = rig.log.lines.filter(({ fields }) => (fields as { code?: string }).code === "restart-turn-failed");
    assert.ok(failed.length >= 2);
    rig.api.refuse(WEB, undefined);
    await rig.pass(20_000);
    assert.equal(times(rig), 1);
  });
});
