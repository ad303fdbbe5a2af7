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

describe("a leader", () => {
  for (const hasRoom of [true, false]) {
    const when = hasRoom ? "during a restart" : "before a restart has a new pod";
    test(`that ends ${when} is followed by one that waits for it and repeats nothing`, async (t) => {
      const rig = await inStep(t);
      rig.deploy("other");
      rig.world.startMs = 30_000;
      rig.world.hasRoom = hasRoom;
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
  }

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

  test("spends no budget on a restart that was not made, and follows one whose answer is lost", async (t) => {
    for (const isMade of [false, true]) {
      const rig = await inStep(t, { dailyBudget: 1 });
      rig.deploy("other", { template: { "switchback.dev/on-change": "none" } });
      const { mergePatch } = rig.api.client;
      let answers = 1;
      rig.api.client.mergePatch = async (path, body, options) => {
        if (options?.dryRun || answers-- <= 0) return await mergePatch(path, body, options);
        if (isMade) await mergePatch(path, body, options);
        throw refusal(path, 503);
      };
      rig.world.startMs = 5_000;
      rig.publish(SECOND);
      await rig.pass(6_000);
      const { underWay } = rolloutStatus(rig.running.pods);
      assert.deepEqual([times(rig), underWay], isMade ? [1, "shop/Deployment/web"] : [0, undefined]);
      await rig.pass(40_000);
      assert.deepEqual([rig.codeOf("web"), times(rig), rig.counted], ["in-step", 1, ["restarted"]]);
      await rig.end();
      t.mock.timers.reset();
    }
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
    await rig.pass(1_000);
    const { workloads, underWay } = rolloutStatus(rig.running.pods);
    assert.deepEqual([workloads, underWay], [[], "shop/Deployment/web"]);
    await rig.pass(60_000, 500);
    assert.deepEqual([rig.world.restarts.length, rolloutStatus(rig.running.pods).underWay], [1, undefined]);
    rig.edit("/api/v1/namespaces/shop", { metadata: { labels: { "switchback.dev/inject": "enabled" } } });
    await rig.pass(60_000, 500);
    assert.equal(rig.world.restarts.length, 2);
  });

  test("follows no restart that somebody forged: only its own namespace waits, and is held", async (t) => {
    const rig = restartRig(t, { namespaces: ["shop", "evil"] });
    rig.api.put("/api/v1/namespaces/evil", { metadata: { labels: { "switchback.dev/inject": "enabled" } } });
    rig.publish(FIRST);
    rig.deploy("web");
    for (const name of ["late-1", "late-2", "late-3", "next"]) rig.deploy(name, { namespace: "evil" });
    const forge = (name: string, agoMs: number) => {
      rig.world.broken.add(name);
      const at = new Date(Date.now() - agoMs).toISOString();
      const annotations = { [RECORD]: JSON.stringify({ version: 1, restarts: [{ at, by: ["shop"] }] }) };
      const template = { metadata: { annotations: { [STAMP]: at } } };
      rig.edit(deploymentPath(name, "evil"), { metadata: { annotations }, spec: { template } });
      rig.edit(`${podsPath("evil")}/${name}-0`, template);
      rig.report(deploymentPath(name, "evil"), true);
    };
    for (const name of ["late-1", "late-2", "late-3"]) forge(name, HOUR_MS / 2);
    const first = rig.lead();
    rig.publish(SECOND);
    await rig.pass(10_000);
    const codes = () => [first.codeOf("web"), times(rig), first.codeOf("next"), first.codeOf("late-1")];
    assert.deepEqual(codes(), ["in-step", 1, "restarts-held", "rollout-failed"]);
    await first.end();
    forge("late-3", 60_000);
    const second = rig.lead();
    rig.publish({ ...SECOND, "third.example.com": "shop" });
    await rig.pass(60_000, 500);
    assert.deepEqual([second.codeOf("web"), times(rig), second.codeOf("late-3")], ["in-step", 2, "restarting"]);
    forge("next", 0);
    rig.publish({ ...SECOND, "third.example.com": "shop", "fourth.example.com": "shop" });
    await rig.pass(120_000, 500);
    assert.deepEqual([second.codeOf("web"), times(rig)], ["in-step", 3]);
    assert.ok(!rig.api.writes.some(({ path }) => path.includes("/evil/")));
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

  test("comes to a workload although many others cannot be restarted", async (t) => {
    const rig = restartRig(t);
    rig.publish(FIRST);
    for (let index = 0; index < 30; index += 1) rig.deploy(`bad-${index}`);
    rig.deploy("web");
    const { codeOf } = rig.lead();
    await rig.pass(1_000);
    rig.api.onWrite = ({ path }) => {
      if (path.includes("/bad-")) throw refusal(path, 500);
    };
    rig.publish(SECOND);
    await rig.pass(200_000, 500);
    assert.deepEqual([codeOf("web"), times(rig), codeOf("bad-0")], ["in-step", 1, "not-available"]);
  });

  test("comes soon to a workload although another namespace has hundreds that do not exist", async (t) => {
    const rig = restartRig(t, { namespaces: ["shop", "evil"] });
    rig.api.put("/api/v1/namespaces/evil", { metadata: { labels: { "switchback.dev/inject": "enabled" } } });
    rig.publish(FIRST);
    for (let index = 0; index < 300; index += 1) {
      rig.deploy(`fake-${index}`, { namespace: "evil" });
      rig.api.remove(deploymentPath(`fake-${index}`, "evil"));
    }
    rig.deploy("web");
    const { running } = rig.lead();
    await rig.pass(1_000);
    rig.report(WEB, true);
    rig.world.broken.add("web");
    rig.publish(SECOND);
    await rig.pass(10_000);
    const fakes = (reads: readonly string[]) => new Set(reads.filter((path) => path.includes("/fake-"))).size;
    const before = fakes(rig.api.reads.slice(0, rig.api.reads.indexOf(WEB)));
    assert.ok(before <= 10, `${before} looks at others before the first`);
    rig.world.broken.clear();
    rig.report(WEB, false);
    await rig.pass(5_000);
    assert.equal(times(rig), 1);
    await rig.pass(60_000, 500);
    assert.equal(fakes(rig.api.reads), 300, "each is looked at");
    const codes = rolloutStatus(running.pods).workloads.map(({ code }) => code);
    assert.ok(codes.filter((code) => code === "not-available").length >= 290, "each keeps its reason until then");
  });

  test("comes to each namespace in turn, although the pods of another one stay stale after each restart", async (t) => {
    const rig = restartRig(t, { namespaces: ["shop", "busy"] });
    rig.api.put("/api/v1/namespaces/busy", { metadata: { labels: { "switchback.dev/inject": "enabled" } } });
    rig.publish(FIRST);
    for (const name of ["a", "b", "c"]) {
      rig.deploy(name, { namespace: "busy" });
      // No rollout replaces this pod, although it names the same owner.
      rig.api.put(`${podsPath("busy")}/${name}-old`, { ...rig.api.at(`${podsPath("busy")}/${name}-0`) });
    }
    const { codeOf } = rig.lead();
    rig.world.startMs = 300_000;
    rig.publish(SECOND);
    await rig.pass(10_000);
    rig.world.injects = false;
    rig.deploy("web");
    rig.world.injects = true;
    await rig.pass(700_000, 5_000);
    assert.deepEqual([codeOf("web"), times(rig)], ["in-step", 1]);
    assert.ok(rig.world.restarts.length > 1, "the others were restarted, too");
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
    await rig.pass(40_000);
    assert.equal(times(rig), 1);
  });
});
