import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { CONFIG_NAME } from "#lib/documents/installed-config.ts";
import { addConfig, FRONT_IP, installed, NAMESPACE, ours } from "#test/fakes/installed.ts";
import { MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import { mapObjects, OBJECTS, targetsObject } from "#test/published.ts";
import { type Installation, readHolders, readInstallation } from "./installation.ts";

const read = (api: MemoryServer) => readInstallation(api.client, NAMESPACE, []);
async function assertFrees(api: MemoryServer, ...expected: readonly (readonly [address: string, service: string])[]) {
  assert.deepEqual((await read(api)).addresses, new Map(expected));
}
const FRONT = [FRONT_IP, "switchback-nginx"] as const;

const TARGETS = `
targets:
  - { name: nginx }
  - { name: gone }
  - { name: fixed, clusterIPs: [192.0.2.7] }
`;

function withTargets(
  api: MemoryServer,
  ...targets: (readonly [name: string, ...clusterIPs: string[]])[]
): MemoryServer {
  const remembered = targets.map(([name, ...clusterIPs]) => ({ name, clusterIPs }));
  for (const object of mapObjects({}, { targets: remembered }))
    api.add(ours("configmaps"), object.metadata.name, object);
  return api;
}

test("the uninstall frees addresses of an extra, like those of the front Services", async () => {
  const part = {
    addresses: async (_client: unknown, namespace: string, sections: object) =>
      new Map([["192.0.2.53", [namespace, ...Object.keys(sections)].join(" ")]]),
  };
  const { addresses } = await readInstallation(installed("some: { enabled: true }").client, NAMESPACE, [part]);
  assert.deepEqual([...addresses], [FRONT, ["192.0.2.53", `${NAMESPACE} some`]]);
});

describe("the configuration", () => {
  test("lists the namespaces in which restarts are permitted", async () => {
    const yaml =
      "agent: { namespace: agents }\nrestart: { namespaces: [shop, blog] }\noptIn: { namespaces: [cm, shop] }";
    const install = await read(installed(yaml));
    assert.deepEqual([...install.restartNamespaces], ["shop", "blog", "cm"]);
  });

  for (const [what, data] of [
    ["is empty", { "config.yaml": "" }],
    ["has no key", {}],
    ["is of another version", { "config.yaml": "unheardOf: 1\nagent: { other: 2 }\nrestart: { mode: x }\noptIn: {}" }],
    ["has no data", undefined],
  ] as const) {
    test(`that ${what} permits no restarts`, async () => {
      const api = installed();
      addConfig(api, data);
      assert.equal((await read(api)).restartNamespaces.size, 0);
    });
  }

  for (const yaml of ["[", "restart: { namespaces: 5 }", "just text"]) {
    test(`that is ${JSON.stringify(yaml)} is an error, not a guess`, async () => {
      await assert.rejects(read(installed(yaml)), {
        code: "data-corrupt",
        message: /^the ConfigMap switchback-config holds no configuration/,
      });
    });
  }

  test("that is gone with `helm uninstall --no-hooks` permits no restarts, while fronts are left", async () => {
    const api = withTargets(installed(), ["gone", "198.51.100.20"]);
    api.objects.delete(`${ours("configmaps")}/${CONFIG_NAME}`);
    const { addresses, restartNamespaces, steps } = await readInstallation(api.client, NAMESPACE, [
      { step: () => ({ plan: "It goes.", run: async () => undefined }) },
    ]);
    assert.deepEqual([[...addresses.keys()].sort(), restartNamespaces.size], [["198.51.100.20", FRONT_IP], 0]);
    assert.equal(steps.length, 1);
  });

  test("that is missing is an error with the namespace", async () => {
    await assert.rejects(readInstallation(installed().client, "elsewhere", []), {
      code: "input-invalid",
      message:
        "there is no ConfigMap switchback-config in the namespace elsewhere; is Switchback installed there? " +
        "(--namespace)",
    });
  });

  for (const [what, fails] of [
    ["configuration", CONFIG_NAME],
    ["targets", OBJECTS.targets],
    ["front Services", "services"],
  ] as const) {
    test(`a refusal of the ${what} is passed on`, async () => {
      const api = installed();
      api.onCall = ({ path }) => (path.endsWith(fails) ? refusal(403, "Refused") : undefined);
      await assert.rejects(read(api), { code: "kube-status", status: 403 });
    });
  }
});

describe("the addresses that the uninstall frees", () => {
  test("are those of Services with a target's label, in either field for ClusterIPs", async () => {
    const api = installed();
    const labels = { "switchback.dev/target": "traefik" };
    api.add(ours("services"), "switchback-traefik", { metadata: { labels }, spec: { clusterIP: "198.51.100.10" } });
    api.add(ours("services"), "both", { metadata: { labels }, spec: { clusterIPs: ["198.51.100.11", "2001:db8::1"] } });
    api.add(ours("services"), "headless", { metadata: { labels }, spec: { clusterIP: "None" } });
    api.add(ours("services"), "pending", { metadata: { labels } });
    api.add(ours("services"), "switchback-controller", { spec: { clusterIP: "198.51.100.12" } });
    api.add("/api/v1/namespaces/other/services", "web", { metadata: { labels }, spec: { clusterIP: "198.51.100.13" } });
    await assertFrees(
      api,
      FRONT,
      ["198.51.100.10", "switchback-traefik"],
      ["198.51.100.11", "both"],
      ["2001:db8::1", "both"],
    );
  });

  test("include those of a deleted front, which the targets remember", async () => {
    const api = withTargets(installed(TARGETS), ["gone", "198.51.100.20", "2001:db8::20"]);
    await assertFrees(api, FRONT, ["198.51.100.20", "switchback-gone"], ["2001:db8::20", "switchback-gone"]);
  });

  test("include those of a target that is not configured", async () => {
    const api = withTargets(installed(), ["ingress-nginx", "198.51.100.20"]);
    await assertFrees(api, FRONT, ["198.51.100.20", "switchback-ingress-nginx"]);
  });

  test("exclude an ingress controller's own: of a target without a relay, or given addresses", async () => {
    const api = withTargets(installed(TARGETS), ["fixed", "192.0.2.7"]);
    await assertFrees(api, FRONT);
    const direct = { name: "direct", upstream: "192.0.2.1", ports: [], clusterIPs: ["198.51.100.30"] };
    api.add(ours("configmaps"), OBJECTS.targets, targetsObject([direct]));
    await assertFrees(api, FRONT);
  });

  test("keep the Service that has them now", async () => {
    const api = withTargets(installed(TARGETS), ["gone", FRONT_IP]);
    await assertFrees(api, FRONT);
  });

  const keys = Object.keys(targetsObject([]).data);
  const broken = (text: string) => Object.fromEntries(keys.map((key) => [key, text]));
  for (const data of [undefined, {}, broken("no JSON"), broken("{}")]) {
    test(`without usable targets (${JSON.stringify(data)}) are only those of the Services`, async () => {
      const api = installed(TARGETS);
      api.add(ours("configmaps"), OBJECTS.targets, { data });
      await assertFrees(api, FRONT);
    });
  }
});

describe("the holders", () => {
  const OURS = FRONT_IP;
  const INSTALL: Installation = {
    addresses: new Map([
      [OURS, "switchback-nginx"],
      ["2001:db8::9", "switchback-nginx"],
    ]),
    restartNamespaces: new Set(),
    steps: [],
    sections: {},
  };
  const pods = (namespace: string) => `/api/v1/namespaces/${namespace}/pods`;
  const holding = (...ips: string[]) => ({ spec: { hostAliases: ips.map((ip) => ({ ip })) } });
  const owned = (kind: string, name: string, apiVersion = "apps/v1", controller = true) => ({
    ownerReferences: [{ apiVersion, kind, name, uid: "u", controller }],
  });
  const annotated = (annotations: object) => ({ metadata: { annotations } });
  const resolving = (nameservers: string[], recorded?: string, dnsPolicy = "None") => ({
    ...(recorded !== undefined && annotated({ "switchback.dev/resolvers": recorded })),
    spec: { dnsPolicy, dnsConfig: { nameservers } },
  });

  /** What one pod holds: the addresses, or undefined. */
  async function heldBy(pod: Record<string, unknown>) {
    const api = new MemoryServer();
    api.add(pods("shop"), "p", pod);
    const [holder, ...more] = await readHolders(api.client, INSTALL);
    assert.deepEqual(more, []);
    return holder?.addresses;
  }

  for (const [what, pod, held] of [
    ["our address in its hosts file, whoever wrote it", holding("192.0.2.1", OURS, OURS), [OURS]],
    ["another's address", holding("192.0.2.1"), undefined],
    ["the webhook's label only", { metadata: { labels: { "switchback.dev/injected": "true" } } }, undefined],
    ["another's address that the webhook added", annotated({ "switchback.dev/owned": "192.0.2.1 x1 (ab)" }), []],
    ["nothing that the webhook added", annotated({ "switchback.dev/owned": "none" }), undefined],
    ["our address, but has ended", { ...holding(OURS), status: { phase: "Succeeded" } }, undefined],
    ["our address, and is pending", { ...holding(OURS), status: { phase: "Pending" } }, [OURS]],
    ["no spec", {}, undefined],
    ["our address as a nameserver", resolving(["192.0.2.1", OURS]), [OURS]],
    [
      "the resolvers of pod DNS",
      resolving(["192.0.2.7", "192.0.2.8"], "192.0.2.7 192.0.2.8"),
      ["192.0.2.7", "192.0.2.8"],
    ],
    ["others' nameservers", resolving(["192.0.2.7"]), undefined],
    ["other nameservers than the recorded ones", resolving(["192.0.2.7"], "192.0.2.9"), undefined],
    ["recorded nameservers that it does not use", resolving(["192.0.2.7"], "192.0.2.7", "ClusterFirst"), undefined],
  ] as const) {
    test(`a pod with ${what}: ${JSON.stringify(held)}`, async () => assert.deepEqual(await heldBy(pod), held));
  }

  test("are merged by workload, sorted, in the cluster or in one namespace", async () => {
    const api = new MemoryServer();
    const db = { metadata: owned("StatefulSet", "db") };
    api.add(pods("shop"), "db-1", { ...db, ...holding("2001:db8::9") });
    api.add(pods("shop"), "db-0", { ...db, ...holding(OURS) });
    api.add(pods("blog"), "db-0", { ...db, ...holding(OURS) });
    const common = { kind: "StatefulSet", name: "db", unrestartable: undefined };
    const shop = {
      ...common,
      key: "shop/StatefulSet/db",
      namespace: "shop",
      pods: ["db-0", "db-1"],
      addresses: [OURS, "2001:db8::9"],
    };
    const blog = { ...common, key: "blog/StatefulSet/db", namespace: "blog", pods: ["db-0"], addresses: [OURS] };
    assert.deepEqual(await readHolders(api.client, INSTALL), [blog, shop]);
    assert.deepEqual(await readHolders(api.client, INSTALL, "shop"), [shop]);
  });

  test("are unknown if the list is refused", async () => {
    const api = new MemoryServer();
    api.onCall = () => refusal(403, "Refused");
    await assert.rejects(readHolders(api.client, INSTALL), { code: "kube-status", status: 403 });
  });
});
