import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { WorkloadStatus } from "../../running/report.ts";
import { Kubelet, type RunningPod } from "./kubelet.ts";
import { ingress, mapped, namespaceYaml, workload } from "./objects.ts";
import { type System, startSystem, until } from "./system.ts";

// Running pods follow the map by restarts, on a real API server with the real Deployment controller; only containers are missing.

const NS = "follow";
let system: System;
let kubelet: Kubelet;

before(async () => {
  system = await startSystem({
    webhooks: 2,
    before: namespaceYaml(NS, "enabled") + namespaceYaml("elsewhere", "enabled"),
    values: {
      config: {
        restart: { namespaces: [NS], debounceSeconds: 0.5, minIntervalSeconds: 1 },
        map: { vanishSeconds: 1 },
      },
    },
  });
  await system.showWebhooks();
  kubelet = new Kubelet(system, NS, "elsewhere");
  await system.apply(ingress("first", ["first.example.com"]));
  await system.ready(["first.example.com"]);
});
after(async () => {
  await kubelet?.stop();
  await system?.stop();
});

async function pods(name: string, namespace = NS): Promise<RunningPod[]> {
  const args = ["-n", namespace, "get", "pods", "-l", `app=${name}`];
  const { items } = await system.json<{ items: RunningPod[] }>(...args);
  return items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
}

async function rolledOut(kind: string, name: string, namespace = NS): Promise<void> {
  await system.kubectl("-n", namespace, "rollout", "status", `${kind.toLowerCase()}/${name}`, "--timeout=30s");
}

async function statusOf(name: string, namespace = NS): Promise<WorkloadStatus | undefined> {
  const { running } = await (await system.leader()).status();
  return running?.workloads.find((each) => each.name === name && each.namespace === namespace);
}

async function codeIs(name: string, code: string, namespace = NS): Promise<void> {
  let last: unknown;
  await until(`${name} to be ${code}`, async () => {
    last = await statusOf(name, namespace);
    return (last as WorkloadStatus | undefined)?.code === code;
  }).catch((error) => assert.fail(`${error}: ${JSON.stringify(last)}`));
}

/** How often a workload's template was changed after it was made. */
async function restarts(kind: string, name: string, namespace = NS): Promise<number> {
  const { metadata } = await system.json<{ metadata: { generation: number } }>("-n", namespace, "get", kind, name);
  return metadata.generation - 1;
}

async function addName(name: string): Promise<void> {
  await system.apply(ingress(name.replaceAll(".", "-"), [name]));
  await system.ready([name]);
}

describe("a new name", () => {
  for (const kind of ["Deployment", "StatefulSet"]) {
    it(`restarts a ${kind} once, and its new pod has it`, async () => {
      const name = `web-${kind.toLowerCase()}`;
      await system.apply(workload(kind, name, NS));
      await rolledOut(kind, name);
      await codeIs(name, "in-step");
      await addName(`${name}.example.com`);
      await until("the new pod", async () => {
        const [pod, ...others] = await pods(name);
        return others.length === 0 && pod !== undefined && mapped(pod).includes(`${name}.example.com`);
      });
      await rolledOut(kind, name);
      await codeIs(name, "in-step");
      assert.equal(await restarts(kind, name), 1);
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

  it("is only reported where the install may not restart", async () => {
    await system.apply(workload("Deployment", "far", "elsewhere"));
    await rolledOut("Deployment", "far", "elsewhere");
    await addName("far.example.com");
    await codeIs("far", "restart-not-permitted", "elsewhere");
    assert.equal(await restarts("Deployment", "far", "elsewhere"), 0);
    const status = await statusOf("far", "elsewhere");
    assert.deepEqual([status?.kind, status?.stale, status?.standing], ["Deployment", 1, "stuck"]);
    await until("one Event", async () => {
      const events = await system.kubectl("-n", "elsewhere", "get", "events", "-o", "jsonpath={.items[*].reason}");
      return events.split(" ").filter((reason) => reason === "RestartNotPermitted").length === 1;
    });
  });
});
