import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { type Following, startFollowing } from "./following.ts";
import type { Kubelet } from "./kubelet.ts";
import { ingress, workload } from "./objects.ts";
import { NAMESPACE, type System, until } from "./system.ts";

// Faults around restarts, on a real API server. Each fault causes at most one restart of a workload, and everything
// that can recover does.

const NS = "faults";
let system: System;
let kubelet: Kubelet;
let follow: Following;

before(async () => {
  ({ system, kubelet, follow } = await startFollowing(NS, {
    controllers: 2,
    values: {
      config: {
        controller: { leaseSeconds: 4 },
        restart: { namespaces: [NS], minIntervalSeconds: 1 },
        map: { vanishSeconds: 1 },
      },
    },
  }));
});
after(async () => {
  await kubelet?.stop();
  await system?.stop();
});

/** Creates a Deployment, and waits until it is rolled out. */
async function made(name: string, template: object = {}, spec: object = {}): Promise<void> {
  await system.apply(workload("Deployment", name, NS, { template, spec }));
  await follow.rolledOut("Deployment", name);
}

const gone = (name: string) => system.kubectl("-n", NS, "delete", "deployment", name);

describe("running pods", () => {
  it("are not restarted while the webhook is down, and are restarted once when it is back", async () => {
    const [webhook] = system.webhooks;
    assert.ok(webhook);
    await made("dead");
    await system.end(webhook);
    await system.apply(ingress("while-dead", ["while-dead.example.com"]));
    await follow.codeIs("dead", "webhook-unreachable");
    await system.apply(workload("Deployment", "not-injected", NS));
    await follow.rolledOut("Deployment", "not-injected");
    await until("the pod without a trace of the webhook to be reported", async () => {
      const status = await follow.statusOf("not-injected");
      return status?.notInjected === 1 && status.stale === 1;
    });
    assert.equal((await follow.changes("dead")) + (await follow.changes("not-injected")), 0);
    await system.start("webhook");
    await system.ready(["while-dead.example.com"]);
    await system.showWebhooks();
    for (const name of ["dead", "not-injected"]) {
      await until(`${name} to follow`, () => follow.haveName(name, "while-dead.example.com"));
      await follow.codeIs(name, "in-step");
      assert.equal(await follow.changes(name), 1);
      await gone(name);
    }
  });

  it("are restarted once when the API server can call a ready webhook again, and not before", async () => {
    await made("unreached");
    const [webhook] = system.webhooks;
    assert.ok(webhook);
    await system.end(webhook); // The API server keeps its connections to a webhook.
    await system.start("webhook");
    await system.ready();
    // As if kube-proxy did not have the route yet.
    system.cluster.routeService(`${NAMESPACE}/switchback-webhook`, 443, []);
    await system.showWebhooks();
    await system.apply(ingress("while-unreached", ["while-unreached.example.com"]));
    await follow.codeIs("unreached", "webhook-unreachable");
    const text = (await follow.statusOf("unreached"))?.text ?? "";
    assert.match(
      text,
      /^the API server cannot call the webhook: .*"reachable\.switchback\.dev": failed to call webhook/,
    );
    assert.equal(await follow.changes("unreached"), 0);
    system.routeWebhooks();
    await until("the names", () => follow.haveName("unreached", "while-unreached.example.com"));
    await follow.codeIs("unreached", "in-step");
    assert.equal(await follow.changes("unreached"), 1);
    await gone("unreached");
  });

  it("of a template that `switchback inject` has printed are restarted once for a new name", async () => {
    const input = workload("Deployment", "baked", NS);
    const { code, stdout, stderr } = await system.cli(["inject", "-f", "-"], { input });
    assert.equal(code, 0, stderr);
    assert.match(stdout, /first\.example\.com/);
    await system.apply(stdout);
    await follow.rolledOut("Deployment", "baked");
    await follow.codeIs("baked", "in-step");
    await follow.addName("baked.example.com");
    await until("it to follow", () => follow.haveName("baked", "baked.example.com"));
    await follow.codeIs("baked", "in-step");
    await delay(3_000);
    assert.equal(await follow.changes("baked"), 1);
    await gone("baked");
  });

  it("follow although somebody else changes the workload all the time", async () => {
    await made("busy");
    let edits = 0;
    const stop = new AbortController();
    const editing = (async () => {
      while (!stop.signal.aborted) {
        edits++;
        await system.kubectl("-n", NS, "annotate", "deployment", "busy", "--overwrite", `example.com/n=${edits}`);
      }
    })();
    await follow.addName("busy.example.com");
    await until("it to follow", () => follow.haveName("busy", "busy.example.com")).finally(() => stop.abort());
    await editing;
    assert.ok(edits > 3, `${edits} edits`);
    assert.equal(await follow.restarts("busy"), 1);
    await gone("busy");
  });

  it("are restarted once if the leader ends during the restart", async () => {
    kubelet.startMs = 3_000;
    await made("led");
    await follow.addName("led.example.com");
    await until("a restart to be under way", async () => (await follow.changes("led")) === 1);
    await system.end(await system.leader(), "SIGKILL");
    await until("it to follow", () => follow.haveName("led", "led.example.com"));
    await follow.codeIs("led", "in-step");
    assert.equal(await follow.changes("led"), 1);
    kubelet.startMs = 0;
    await gone("led");
    await system.start("controller");
  });

  it("are left alone while the API server is down, and are restarted once when it is back", async () => {
    await made("away");
    await follow.addName("away.example.com");
    await system.cluster.stopApiServer("SIGKILL");
    await delay(5_000);
    await system.cluster.startApiServer();
    await until("it to follow", () => follow.haveName("away", "away.example.com"), 60_000);
    await follow.codeIs("away", "in-step");
    assert.equal(await follow.changes("away"), 1);
    await gone("away");
  });

  it("whose rollout fails are not restarted again, and other workloads follow", async () => {
    await made("fails", {}, { progressDeadlineSeconds: 3 });
    await made("other");
    kubelet.broken = /^fails-/;
    await follow.addName("fails.example.com");
    await follow.codeIs("fails", "rollout-failed");
    await follow.addName("fails-again.example.com");
    await until("the other one to follow", () => follow.haveName("other", "fails-again.example.com"));
    assert.equal((await follow.statusOf("fails"))?.code, "rollout-failed");
    assert.equal(await follow.changes("fails"), 1);
    kubelet.broken = undefined;
    for (const name of ["fails", "other"]) await gone(name);
  });
});
