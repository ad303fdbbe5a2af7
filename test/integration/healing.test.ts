import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { EDITED, edited, forged, OBJECTS } from "../published.ts";
import { recordMap } from "./history.ts";
import { ingress, mapped, namespaceYaml } from "./objects.ts";
import { type Created, refused, streamPods } from "./pod-stream.ts";
import { NAMESPACE, type System, startSystem, until } from "./system.ts";

const NAMES = ["api.example.com", "shop.example.com"];
const EVIL = "evil.example.com";

let system: System;
before(async () => {
  system = await startSystem({
    webhooks: 2,
    values: {
      config: {
        controller: { leaseSeconds: 4 },
        certs: { overlapSeconds: 2 },
        // No grace period: a name that any component took for gone would leave at once.
        map: { vanishSeconds: 0 },
      },
    },
  });
  await system.apply(`${ingress("shop", NAMES)}${namespaceYaml("labelled", "enabled")}`);
  await system.ready(NAMES);
});
after(() => system?.stop());

const own = (...args: string[]) => system.kubectl("-n", NAMESPACE, ...args);

/** Breaks something and waits until it is repaired, while pods are created all the time. No pod may be refused. */
async function whilePodsAreCreated(breakAndHeal: () => Promise<void>): Promise<readonly Created[]> {
  const stream = streamPods(system, { namespace: "labelled" });
  try {
    await until("the first pods", () => stream.created.length > 5);
    await breakAndHeal();
    const count = stream.created.length;
    await until("pods after it has healed", () => stream.created.length > count + 5);
  } finally {
    await stream.stop();
  }
  assert.deepEqual(refused(stream.created), []);
  return stream.created;
}

/** Asserts that each pod was injected with all of our names, and with nothing else. */
function assertInjected(created: readonly Created[]): void {
  for (const { name, pod } of created) assert.deepEqual(mapped(pod), NAMES, name);
}

async function mapIsWhole(): Promise<boolean> {
  const { revision, hosts } = await system.map();
  return (
    hosts.size === NAMES.length &&
    NAMES.every((name) => hosts.has(name)) &&
    (await Promise.all(system.webhooks.map(({ page }) => page("/loaded")))).every(({ text }) => text.includes(revision))
  );
}

/** Whether each webhook reports, in `/readyz`, that it uses an older map, for a reason that begins with `code`. */
async function everyWebhookRefuses(code: string): Promise<boolean> {
  const pages = await Promise.all(system.webhooks.map(({ page }) => page("/readyz")));
  return pages.every(({ status, text }) => status === 200 && text.includes(`(${code}`));
}

async function frontAddresses(): Promise<string> {
  return await own("get", "svc", "switchback-ingress-nginx", "-o", "jsonpath={.spec.clusterIPs}", "--ignore-not-found");
}

describe("the map", () => {
  it("is repaired after it was deleted, and the webhook never loses a name", async () => {
    const pods = await whilePodsAreCreated(async () => {
      await own("delete", "cm", OBJECTS.map);
      await until("the map to be whole", mapIsWhole);
    });
    assertInjected(pods);
  });

  it("is published again after it was deleted while no controller ran, with the time of the loss", async () => {
    const pods = await whilePodsAreCreated(async () => {
      const [controller] = system.controllers;
      assert.ok(controller);
      await system.end(controller, "SIGTERM");
      await own("delete", "cm", OBJECTS.map);
      await system.start("controller");
      await until("the map to be whole", mapIsWhole);
    });
    assertInjected(pods);
    const { lost = "" } = await system.map();
    assert.ok(Date.now() - Date.parse(lost) < 600_000, lost);
  });

  it("that somebody made immutable stays until it is deleted; the log says so", async () => {
    await own("patch", "cm", OBJECTS.map, "--type=merge", "-p", JSON.stringify({ immutable: true }));
    await system.apply(ingress("shop", [...NAMES, "later.example.com"]));
    const leader = await system.leader();
    await until("the log", async () => /"code":"publish-failed".*is immutable/.test(await leader.log()));
    assert.deepEqual([...(await system.published()).keys()].sort(), NAMES);
    await own("delete", "cm", OBJECTS.map);
    await system.ready([...NAMES, "later.example.com"]);
    await system.apply(ingress("shop", NAMES));
    await until("the map to be whole", mapIsWhole);
  });

  const edit = ({ name, data, annotations = {} }: ReturnType<typeof edited>) =>
    own("patch", "cm", name, "--type=merge", "-p", JSON.stringify({ metadata: { annotations }, data }));
  const line = `192.0.2.66 ${EVIL}\n`;

  it("edited by hand to no data, is replaced, and no pod gets the edit", async () => {
    const pods = await whilePodsAreCreated(async () => {
      await edit(edited(undefined));
      await until("the map to be whole", mapIsWhole);
    });
    assertInjected(pods);
  });

  it("edited while no controller can undo it, reaches no pod, and the webhooks say why", async () => {
    const { process: controller } = await system.leader();
    const pods = await whilePodsAreCreated(async () => {
      process.kill(controller.pid, "SIGSTOP");
      try {
        await edit(edited(line));
        await until("the webhooks to have seen and refused it", () => everyWebhookRefuses(EDITED));
      } finally {
        process.kill(controller.pid, "SIGCONT");
      }
      await until("the map to be whole", mapIsWhole);
    });
    assertInjected(pods);
  });

  it("edited such that readers accept it, is replaced", async () => {
    const editions = await recordMap(system);
    await whilePodsAreCreated(async () => {
      await edit(forged(line));
      await until("the map to be whole", mapIsWhole);
    });
    const written = await editions();
    assert.ok(written.some((hosts) => hosts.has(EVIL)));
    assert.deepEqual([...(written.at(-1)?.keys() ?? [])].sort(), NAMES);
  });
});

describe("the front Service", () => {
  it("is created again with the same ClusterIPs, which the pods hold, after a deletion", async () => {
    const before = await frontAddresses();
    assert.match(before, /198\.51\.100\.\d+.*2001:db8:6::/, "dual-stack");
    const pods = await whilePodsAreCreated(async () => {
      await own("delete", "svc", "switchback-ingress-nginx");
      await until("the front Service", async () => (await frontAddresses()) !== "");
    });
    assert.equal(await frontAddresses(), before);
    assertInjected(pods);
    const ips = new Set(pods.flatMap(({ pod }) => (pod.spec.hostAliases ?? []).map(({ ip }) => ip)));
    assert.deepEqual([...ips].sort(), (JSON.parse(before) as string[]).sort());
  });

  it("is restored after somebody edits its ports, selector or label", async () => {
    const args = ["-n", NAMESPACE, "get", "svc", "switchback-ingress-nginx"];
    const seen = async () => {
      const { metadata, spec } = await system.json<{ metadata: { labels: object }; spec: object }>(...args);
      return { labels: metadata.labels, spec };
    };
    const before = await seen();
    for (const edit of [
      { spec: { ports: [{ name: "tcp-80", port: 80, protocol: "TCP", targetPort: 1 }] } },
      { spec: { selector: { app: "evil" } } },
      { metadata: { labels: { "switchback.dev/target": null } } },
    ]) {
      await own("patch", "svc", "switchback-ingress-nginx", "--type=merge", "-p", JSON.stringify(edit));
      await until(`the end of ${JSON.stringify(edit)}`, async () => {
        const now = await seen();
        return JSON.stringify(now) === JSON.stringify(before);
      });
    }
  });
});

describe("an API server that is away", () => {
  for (const signal of ["SIGTERM", "SIGKILL"] as const) {
    it(`(${signal}) until the leader gives up: everything recovers by itself, and the map is unchanged`, async () => {
      const before = [...(await system.published())].sort();
      const [controller] = system.controllers;
      assert.ok(controller);
      await system.cluster.stopApiServer(signal);
      await until("the leader to give up", async () => !(await controller.status()).leader);
      for (const webhook of system.webhooks) {
        assert.equal((await webhook.page("/readyz")).status, 200, "a webhook serves on with what it has");
      }
      await system.cluster.startApiServer();
      await until("a leader", async () => (await controller.status()).leader);
      await system.ready(NAMES);
      assert.deepEqual([...(await system.published())].sort(), before);
      assertInjected(await whilePodsAreCreated(async () => {}));
      const late = `after-${signal.toLowerCase()}.example.com`;
      await system.apply(ingress("late", [...NAMES, late]));
      await system.ready([late]);
      await system.kubectl("delete", "ingress", "late");
      await until("the map to be as before", mapIsWhole);
    });
  }
});

describe("a ClusterIP of ours that was given to another Service while no controller ran", () => {
  it("is given up: names move to a new one, and an Event reports it", async () => {
    const before = JSON.parse(await frontAddresses()) as string[];
    const [controller] = system.controllers;
    assert.ok(controller);
    await system.end(controller, "SIGTERM");
    await own("delete", "svc", "switchback-ingress-nginx");
    const spec = { clusterIP: before[0], clusterIPs: before, ipFamilyPolicy: "PreferDualStack", ports: [{ port: 80 }] };
    const metadata = { name: "stranger", namespace: "default" };
    await system.apply(JSON.stringify({ apiVersion: "v1", kind: "Service", metadata, spec }));
    await system.start("controller");
    await until("names to move on", async () => {
      const addresses = [...(await system.published()).values()].flat();
      return addresses.length === 2 * NAMES.length && addresses.every((address) => !before.includes(address));
    });
    assert.deepEqual((await system.published()).get(NAMES[0] ?? ""), JSON.parse(await frontAddresses()));
    await until("an Event", async () => {
      const notes = await own(
        "get",
        "events.events.k8s.io",
        "-o",
        "jsonpath={range .items[*]}{.reason}: {.note}\n{end}",
      );
      return notes.includes(`FrontAddressLost: The ClusterIP ${before.join(", ")}`);
    });
    await system.ready(NAMES);
    assertInjected(await whilePodsAreCreated(async () => {}));
  });
});
