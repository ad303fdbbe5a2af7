import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { parse, stringify } from "yaml";
import { type ControlPlane, startControlPlane } from "../cluster/controlplane.ts";
import type { Rendered } from "./rendered.ts";
import { until } from "./system.ts";

// Upgrades, a rollback and an uninstall by Helm on a real API server. Pods of an earlier revision keep their
// configuration for as long as their Deployment or DaemonSet can be rolled back to it. At the end nothing of it is
// left.

const CHART = fileURLToPath(new URL("../../manifests/chart", import.meta.url));
const NAMESPACE = "switchback-system";
const AGENTS = "switchback-agent";
/** revisionHistoryLimit of the chart. */
const HISTORY = 3;

let cluster: ControlPlane;
before(async () => {
  cluster = await startControlPlane();
});
after(() => cluster.stop());

async function run(tool: "helm" | "kubectl", args: string[], input?: string): Promise<string> {
  const { code, stdout, stderr } = await cluster.tool(tool, args, input === undefined ? {} : { input });
  assert.equal(code, 0, `${args.join(" ")}: ${stderr}`);
  return stdout;
}

/** Installs or upgrades with a setting, and waits until the Deployments and the DaemonSet have a revision with it. */
async function upgrade(drainSeconds: number): Promise<string> {
  const values = stringify({ agent: { enabled: true }, config: { proxy: { drainSeconds } } });
  const flags = ["--namespace", NAMESPACE, "--create-namespace", "--values", "-"];
  await run("helm", ["upgrade", "--install", "switchback", CHART, ...flags], values);
  const name = await mounted();
  await recorded(name);
  return name;
}

async function json(...args: string[]): Promise<Rendered> {
  return JSON.parse(await run("kubectl", [...args, "-o", "json"]));
}

/** The name of the ConfigMap that the controller's Deployment mounts. */
async function mounted(): Promise<string> {
  const { spec } = await json("-n", NAMESPACE, "get", "deployment", "switchback-controller");
  return spec.template.spec.volumes[0].configMap.name;
}

/** Waits until kube-controller-manager has written the history of the Deployments and the DaemonSet. */
async function recorded(name: string): Promise<void> {
  const mountsIt = (spec: Rendered) => spec.template.spec.volumes[0].configMap.name === name;
  await until(`4 revisions that mount ${name}`, async () => {
    const sets = (await json("-n", NAMESPACE, "get", "replicasets")).items;
    const revisions = (await json("-n", AGENTS, "get", "controllerrevisions")).items;
    const specs = [...sets.map(({ spec }: Rendered) => spec), ...revisions.map(({ data }: Rendered) => data.spec)];
    return specs.filter(mountsIt).length === 4;
  });
}

/** The `drainSeconds` of the configurations in a namespace. */
async function settings(namespace = NAMESPACE): Promise<number[]> {
  const { items } = await json("-n", namespace, "get", "configmaps", "-l", "app.kubernetes.io/component=config");
  return items
    .map(({ data }: Rendered) => parse(data["config.yaml"]).proxy.drainSeconds)
    .toSorted((a: number, b: number) => a - b);
}

describe("the configuration", () => {
  it("is the one with the settings of the install", async () => {
    await upgrade(2);
    assert.deepEqual([await settings(), await settings(AGENTS)], [[2], [2]]);
  });

  it("of the previous revision stays at an upgrade, also at one that changes nothing", async () => {
    const before = await mounted();
    const after = await upgrade(3);
    assert.notEqual(after, before);
    for (let times = 0; times < 2; times += 1) {
      assert.equal(await upgrade(3), after);
      assert.deepEqual(
        [await settings(), await settings(AGENTS)],
        [
          [2, 3],
          [2, 3],
        ],
      );
    }
  });

  it("cannot be changed in place", async () => {
    const patch = ["patch", "configmap", await mounted(), "--type=merge", "-p", '{"data":{"config.yaml":""}}'];
    assert.match((await cluster.kubectl("-n", NAMESPACE, ...patch)).stderr, /immutable/);
  });

  it("exists again after helm rollback, and after the upgrade that follows", async () => {
    const after = await mounted();
    await run("helm", ["rollback", "switchback", "--namespace", NAMESPACE]);
    await upgrade(2);
    assert.notEqual(await mounted(), after);
    assert.ok((await settings()).includes(2) && (await settings(AGENTS)).includes(2));
    assert.equal(await upgrade(3), after);
  });

  it("is deleted when no revision of a Deployment mounts it any more", async () => {
    for (const each of [4, 5, 6, 7]) await upgrade(each);
    // No node here makes pods ready, and a Deployment keeps its whole history until its rollout is complete.
    await run("kubectl", ["-n", NAMESPACE, "scale", "--replicas=0", "deployment", "--all"]);
    await until("the history of the Deployments", async () => {
      const { items } = await json("-n", NAMESPACE, "get", "replicasets");
      return items.length <= 3 * (1 + HISTORY);
    });
    await upgrade(8);
    const now = await settings();
    assert.ok(now.includes(8) && now.includes(7));
    assert.ok(now.length <= 2 + HISTORY && !now.includes(2), now.join());
  });

  it("of every revision is deleted with the release", async () => {
    await run("helm", ["uninstall", "switchback", "--namespace", NAMESPACE, "--no-hooks"]);
    assert.deepEqual([await settings(), await settings(AGENTS)], [[], []]);
  });
});
