import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Cluster } from "../cluster/cluster.ts";
import { importImages } from "../cluster/node/up.ts";
import { type ProductTree, withProductImage } from "../cluster/product-image.ts";
import { progressLines } from "../cluster/progress.ts";
import { releaseBefore } from "../cluster/release-before.ts";
import { withCluster } from "../cluster/whole.ts";
import type { MadePod } from "./meanwhile.ts";
import { OPTED_IN, optIn } from "./opted-in.ts";
import { programCommand, programDeployment } from "./programs/run.ts";
import { ingress, NAME, openShop, SHOP } from "./shop.ts";
import {
  AGENTS,
  applyChart,
  frontAddress,
  installSwitchback,
  SYSTEM,
  webhookAnswers,
  withAgent,
} from "./switchback.ts";
import { hostnames, unnoticed } from "./unnoticed.ts";
import { where } from "./where.ts";

// The release before and this one, both ways, under load: while the controllers of one release are held back, all else is the other's.
// (test/integration/releases.test.ts has what the documents must keep.) A checkout without the history has no release before.

const LIVE = "lively";
const MADE_HERE = "example.com/releases=yes";
const CONTROLLER = "deployment/switchback-controller";
// NetworkPolicies are off: the release before had none that its tests enforced.
const VALUES = {
  ...withAgent({ restart: { namespaces: [OPTED_IN], debounceSeconds: 1 } }),
  networkPolicy: { enabled: false },
};

const folder = await releaseBefore();
if (folder !== undefined) sideBySide({ folder, tag: "e2e-before" });

function sideBySide(earlier: ProductTree): void {
  let cluster: Cluster;
  let address: string;

  before(async () => {
    cluster = await withCluster();
    await withProductImage((image) => importImages([image], progressLines()), earlier);
    await openShop(cluster);
    const labels = { "switchback.dev/inject": "enabled" };
    await cluster.apply({ apiVersion: "v1", kind: "Namespace", metadata: { name: OPTED_IN, labels } });
    await applyChart(cluster, VALUES, earlier);
    await cluster.releaseRuns("switchback", SYSTEM, AGENTS);
    await webhookAnswers(cluster);
    address = await frontAddress(cluster, "ingress-nginx");
    await cluster.until("the name is mapped", 60, async () => (await hostsOfNew()).includes(NAME) || undefined);
    // It follows by restarts, and its one name does not change.
    await optIn(cluster, { "switchback.dev/hosts": NAME });
    const live = { annotations: { "switchback.dev/on-change": "live" } };
    const lively = programDeployment(OPTED_IN, LIVE, programCommand("client", "sleep"), live);
    await cluster.delete(lively);
    await cluster.apply(lively);
    await cluster.rolledOut(OPTED_IN, `deployment/${LIVE}`);
  });
  after(async () => {
    await cluster.kubectl("-n", SYSTEM, "rollout", "resume", CONTROLLER).catch(() => {});
    await cluster.kubectl("-n", SHOP, "delete", "ingress", "-l", MADE_HERE);
    await cluster.kubectl("-n", OPTED_IN, "delete", "deployment", LIVE, "--ignore-not-found");
    await installSwitchback(cluster);
  });

  /** The names that a pod would get now. */
  async function hostsOfNew(): Promise<string[]> {
    const made = await cluster.kubectl(
      ...["-n", OPTED_IN, "run", "would-be", "--image=none", "--labels=switchback.dev/inject=enabled"],
      ...["--dry-run=server", "-o", "json"],
    );
    return hostnames(JSON.parse(made) as MadePod);
  }

  async function nameArrives(host: string): Promise<void> {
    const name = host.replaceAll(".", "-");
    await cluster.apply(ingress(name, host, "nginx"));
    await cluster.kubectl("-n", SHOP, "label", "ingress", name, MADE_HERE);
    await cluster.until(`${host} in new pods`, 30, async () => (await hostsOfNew()).includes(host) || undefined);
    await cluster.until(`${host} in the running pod that follows live`, 30, async () => {
      const resolve = programCommand("client", "resolve", host);
      const { stdout } = await cluster.exec(`${OPTED_IN}/deployment/${LIVE}`, ...resolve);
      return stdout.includes(address) || undefined;
    });
  }

  async function podsOf(component: string): Promise<Array<{ name: string; image: string; restarts: number }>> {
    const namespace = component === "agent" ? AGENTS : SYSTEM;
    const { items } = await cluster.get<{
      items: Array<{
        metadata: { name: string };
        spec: { containers: Array<{ image: string }> };
        status: { containerStatuses?: Array<{ restartCount: number }> };
      }>;
    }>("-n", namespace, "pods", "-l", `app.kubernetes.io/component=${component}`);
    return items.map(({ metadata: { name }, spec, status }) => {
      const restarts = status.containerStatuses?.[0]?.restartCount ?? 0;
      return { name, image: spec.containers[0]?.image.split(":").at(-1) ?? "", restarts };
    });
  }

  /** Until all pods of these components are of one release, the drained ones gone. None has ever ended by itself. */
  async function areOf(tag: string, ...components: string[]): Promise<void> {
    for (const component of components) {
      await cluster.until(`the pods of ${component} to be of ${tag} alone`, 120, async () => {
        const pods = await podsOf(component);
        assert.deepEqual(
          pods.filter(({ restarts }) => restarts > 0),
          [],
        );
        return (pods.length > 0 && pods.every(({ image }) => image === tag)) || undefined;
      });
      const kind = component === "agent" ? "daemonset" : "deployment";
      await cluster.rolledOut(component === "agent" ? AGENTS : SYSTEM, `${kind}/switchback-${component}`);
    }
  }

  /** Another release comes; its controllers last. `meanwhile` is called while all else is the other's. */
  async function exchange(to: string, apply: () => Promise<unknown>, meanwhile: () => Promise<void>): Promise<void> {
    await cluster.kubectl("-n", SYSTEM, "rollout", "pause", CONTROLLER);
    await apply();
    await areOf(to, "webhook", "proxy", "agent");
    assert.ok(
      (await podsOf("controller")).every(({ image }) => image !== to),
      "controllers of the other release",
    );
    await meanwhile();
    await cluster.kubectl("-n", SYSTEM, "rollout", "resume", CONTROLLER);
    await areOf(to, "controller");
    await nameArrives(`${to}.example.com`);
  }

  test("an upgrade under load, with the controllers of the release before until the end", async (t) => {
    const upgrade = () => applyChart(cluster, VALUES);
    await unnoticed(cluster, t, () => exchange(where().image.tag, upgrade, () => nameArrives("mixed.example.com")));
  });

  test("helm rollback under load, with the controllers of this release until the end", async (t) => {
    const rollback = () => cluster.helm("rollback", "switchback", "-n", SYSTEM);
    // This release's controllers may lack rights that the former chart does not give them: what is new may wait for the others.
    await unnoticed(cluster, t, () =>
      exchange(earlier.tag, rollback, async () => assert.ok((await hostsOfNew()).includes(NAME))),
    );
  });

  test("the upgrade once more under load, all at once", async (t) => {
    await unnoticed(cluster, t, async () => {
      await applyChart(cluster, VALUES);
      await areOf(where().image.tag, "controller", "webhook", "proxy", "agent");
      await nameArrives("again.example.com");
    });
  });
}
