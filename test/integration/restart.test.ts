import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Following } from "./following.ts";
import { Kubelet } from "./kubelet.ts";
import { ingress, mapped, namespaceYaml, workload } from "./objects.ts";
import { type System, startSystem, until } from "./system.ts";

// Running pods follow the map by restarts, on a real API server with the real Deployment controller. Only containers
// are missing.

const NS = "follow";
let system: System;
let kubelet: Kubelet;
let here: Following;
let elsewhere: Following;

before(async () => {
  system = await startSystem({
    webhooks: 2,
    before: namespaceYaml(NS, "enabled") + namespaceYaml("elsewhere", "enabled"),
    values: {
      config: {
        restart: { namespaces: [NS], minIntervalSeconds: 1 },
        map: { vanishSeconds: 1 },
      },
    },
  });
  here = new Following(system, NS);
  elsewhere = new Following(system, "elsewhere");
  await system.showWebhooks();
  kubelet = new Kubelet(system, NS, "elsewhere");
  await system.apply(ingress("first", ["first.example.com"]));
  await system.ready(["first.example.com"]);
});
after(async () => {
  await kubelet?.stop();
  await system?.stop();
});

describe("a new name", () => {
  for (const kind of ["Deployment", "StatefulSet"]) {
    it(`restarts a ${kind} once, and its new pod has it`, async () => {
      const name = `web-${kind.toLowerCase()}`;
      await system.apply(workload(kind, name, NS));
      await here.rolledOut(kind, name);
      await here.codeIs(name, "in-step");
      await here.addName(`${name}.example.com`);
      await until("the new pod", async () => {
        const [pod, ...others] = await here.pods(name);
        return others.length === 0 && pod !== undefined && mapped(pod).includes(`${name}.example.com`);
      });
      await here.rolledOut(kind, name);
      await here.codeIs(name, "in-step");
      assert.equal(await here.changes(name, kind), 1);
      const { stdout } = await system.cluster.kubectl(
        "-n",
        NS,
        "get",
        kind,
        name,
        "-o",
        "yaml",
        "--show-managed-fields",
      );
      assert.match(stdout, /manager: switchback-restart/);
    });
  }

  it("is only reported if the install may not restart", async () => {
    await system.apply(workload("Deployment", "far", "elsewhere"));
    await elsewhere.rolledOut("Deployment", "far");
    await here.addName("far.example.com");
    await elsewhere.codeIs("far", "restart-not-permitted");
    assert.equal(await elsewhere.changes("far"), 0);
    const status = await elsewhere.statusOf("far");
    assert.deepEqual([status?.kind, status?.stale, status?.standing], ["Deployment", 1, "stuck"]);
    await until("one Event", async () => {
      const events = await system.kubectl("-n", "elsewhere", "get", "events", "-o", "jsonpath={.items[*].reason}");
      return events.split(" ").filter((reason) => reason === "RestartNotPermitted").length === 1;
    });
  });
});
