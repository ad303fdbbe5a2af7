import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { CONFIG_NAME } from "#lib/documents/installed-config.ts";
import { addConfig, addHolder, FRONT_IP, installed, NAMESPACE, ours } from "#test/fakes/installed.ts";
import { MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import { mapObjects, OBJECTS, targetsObject } from "#test/published.ts";
import { type Installation, readHolders, readInstallation } from "./installation.ts";

const read = (api: MemoryServer) => readInstallation(api.client, NAMESPACE);
const addressesOf = async (api: MemoryServer) => [...(await read(api)).addresses];
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

  test("that is missing is an error with the namespace", async () => {
    await assert.rejects(readInstallation(installed().client, "elsewhere"), {
      code: "input-invalid",
      message:
        "there is no ConfigMap switchback-config in the namespace elsewhere; is Switchback installed there? " +
        "(--namespace)",
    });
  });

  for (const status of [403, 409, 500]) {
    for (const [what, fails] of [
      ["configuration", CONFIG_NAME],
      ["targets", OBJECTS.targets],
      ["front Services", "services"],
    ] as const) {
      test(`a ${status} on the ${what} is passed on`, async () => {
        const api = installed();
        api.onCall = ({ path }) => (path.endsWith(fails) ? refusal(status, "Refused") : undefined);
        await assert.rejects(read(api), { code: "kube-status", status });
      });
    }
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
    assert.deepEqual(await addressesOf(api), [
      FRONT,
      ["198.51.100.10", "switchback-traefik"],
      ["198.51.100.11", "both"],
      ["2001:db8::1", "both"],
    ]);
  });

  test("include those of a deleted front, which the targets remember", async () => {
    const api = withTargets(installed(TARGETS), ["gone", "198.51.100.20", "2001:db8::20"]);
    assert.deepEqual(await addressesOf(api), [
      FRONT,
      ["198.51.100.20", "switchback-gone"],
      ["2001:db8::20", "switchback-gone"],
    ]);
  });

  test("include those of a target that is not configured", async () => {
    const api = withTargets(installed(), ["ingress-nginx", "198.51.100.20"]);
    assert.deepEqual(await addressesOf(api), [FRONT, ["198.51.100.20", "switchback-ingress-nginx"]]);
  });

  test("exclude an ingress controller's own: of a target without a relay, or given addresses", async () => {
    const api = withTargets(installed(TARGETS), ["fixed", "192.0.2.7"]);
    assert.deepEqual(await addressesOf(api), [FRONT]);
    const direct = { name: "direct", upstream: "192.0.2.1", ports: [], clusterIPs: ["198.51.100.30"] };
    api.add(ours("configmaps"), OBJECTS.targets, targetsObject([direct]));
    assert.deepEqual(await addressesOf(api), [FRONT]);
  });

  test("keep the Service that has them now", async () => {
    const api = withTargets(installed(TARGETS), ["gone", FRONT_IP]);
    assert.deepEqual(await addressesOf(api), [FRONT]);
  });

  const keys = Object.keys(targetsObject([]).data);
  const broken = (text: string) => Object.fromEntries(keys.map((key) => [key, text]));
  for (const data of [undefined, {}, broken("no JSON"), broken("{}")]) {
    test(`without usable targets (${JSON.stringify(data)}) are only those of the Services`, async () => {
      const api = installed(TARGETS);
      api.add(ours("configmaps"), OBJECTS.targets, { data });
      assert.deepEqual(await addressesOf(api), [FRONT]);
    });
  }
});

describe("the holders", () => {
  const INSTALL: Installation = {
    addresses: new Map([[FRONT_IP, "switchback-nginx"]]),
    restartNamespaces: new Set(),
    lastSteps: [],
    sections: {},
  };
  const names = async (api: MemoryServer, namespace?: string) =>
    (await readHolders(api.client, INSTALL, namespace)).map(({ kind, name, pods }) => `${kind}/${name} ${pods.join()}`);

  function cluster(): MemoryServer {
    const api = new MemoryServer();
    addHolder(api, "shop", "web-2", ["ReplicaSet", "web-5d4f6"]);
    addHolder(api, "blog", "db-0", ["StatefulSet", "db"]);
    addHolder(api, "shop", "web-1", ["ReplicaSet", "web-5d4f6"]);
    addHolder(api, "shop", "stranger", undefined, "192.0.2.1");
    return api;
  }

  test("are read from the whole cluster, with one entry per workload", async () => {
    const api = cluster();
    assert.deepEqual(await names(api), ["StatefulSet/db db-0", "Deployment/web web-1,web-2"]);
    assert.deepEqual(new Set(api.calls.map(({ path }) => path)), new Set(["/api/v1/pods"]));
  });

  test("are read from one namespace if it is given", async () => {
    assert.deepEqual(await names(cluster(), "shop"), ["Deployment/web web-1,web-2"]);
  });

  for (const status of [403, 500]) {
    test(`are unknown if the list gets a ${status}`, async () => {
      const api = cluster();
      api.onCall = () => refusal(status, "Refused");
      await assert.rejects(names(api), { code: "kube-status", status });
    });
  }
});
