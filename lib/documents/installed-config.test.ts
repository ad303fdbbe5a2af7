import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { addConfig, CONFIG_NAME, NAMESPACE, ours } from "#test/fakes/installed.ts";
import { MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import { readConfigName, readConfigText } from "./installed-config.ts";

let api: MemoryServer;
beforeEach(() => {
  api = new MemoryServer();
});

const nameOf = () => readConfigName(api.client, NAMESPACE);

const addController = (...volumes: object[]) => addDeployment("switchback-controller", volumes);

function addDeployment(name: string, volumes: object[]): void {
  const path = `/apis/apps/v1/namespaces/${NAMESPACE}/deployments`;
  api.add(path, name, { spec: { template: { spec: { volumes } } } });
}

describe("the name", () => {
  test("is that of the ConfigMap that the controller mounts, even if it is not the newest", async () => {
    addConfig(api, {});
    for (const name of ["switchback-config", "switchback-config-aaaaaaaaaa"]) {
      addController({ name: "tls", secret: {} }, { name: "config", configMap: { name } });
      assert.equal(await nameOf(), name);
    }
  });

  test("comes from the single Deployment of the profile small", async () => {
    addConfig(api, {});
    addDeployment("switchback-all", [{ name: "config", configMap: { name: "switchback-config-bbbbbbbbbb" } }]);
    assert.equal(await nameOf(), "switchback-config-bbbbbbbbbb");
  });

  test("is that of the newest ConfigMap with the label, if the Deployment is gone or mounts none", async () => {
    assert.equal(await nameOf(), undefined);
    const labels = { "app.kubernetes.io/name": "switchback", "app.kubernetes.io/component": "config" };
    for (const [name, creationTimestamp] of [
      ["a", "2026-01-01T00:00:00Z"],
      ["b", "2026-01-03T00:00:00Z"],
      ["c", "2026-01-02T00:00:00Z"],
    ] as const)
      api.add(ours("configmaps"), name, { metadata: { labels, creationTimestamp } });
    api.add(ours("configmaps"), "switchback-hosts", { metadata: { creationTimestamp: "2026-01-04T00:00:00Z" } });
    assert.equal(await nameOf(), "b");
    addController({ name: "tls", secret: {} });
    assert.equal(await nameOf(), "b");
  });

  test("is not guessed if reading the Deployment is forbidden", async () => {
    addConfig(api, {});
    api.onCall = ({ path }) => (path.includes("/deployments/") ? refusal(403, "Forbidden") : undefined);
    await assert.rejects(nameOf(), { code: "kube-status", status: 403 });
  });
});

describe("the text", () => {
  test("is the content of config.yaml, and empty without it", async () => {
    const text = () => readConfigText(api.client, NAMESPACE, CONFIG_NAME);
    addConfig(api, { "config.yaml": "strict: true" });
    assert.equal(await text(), "strict: true");
    addConfig(api);
    assert.equal(await text(), "");
  });

  test("of another object is refused", async () => {
    api.onCall = () => ({ status: 200, body: { metadata: { name: "another" } } });
    await assert.rejects(readConfigText(api.client, NAMESPACE, CONFIG_NAME), { code: "data-corrupt" });
  });
});
