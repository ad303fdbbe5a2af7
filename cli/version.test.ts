import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { runHere, useFiles } from "#test/fakes/cli.ts";
import { addConfig } from "#test/fakes/installed.ts";
import { type FakeApi, fakeApi, refuse } from "#test/fakes/kube-api.ts";
import { MemoryServer } from "#test/fakes/memory-server.ts";

const OWN = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")).version;
const DEPLOYMENTS = "/apis/apps/v1/namespaces/ours/deployments";

const files = useFiles();
let api: FakeApi;

function addComponent(server: MemoryServer, component: string, image: string): void {
  const labels = {
    "app.kubernetes.io/name": "switchback",
    "app.kubernetes.io/component": component,
    "app.kubernetes.io/version": "0.9.0",
  };
  server.add(DEPLOYMENTS, `switchback-${component}`, {
    metadata: { labels },
    spec: { replicas: 2, template: { spec: { containers: [{ image }] } } },
    status: { readyReplicas: 1 },
  });
}

function install(): MemoryServer {
  const server = new MemoryServer();
  const digest = `sha256:${"a".repeat(64)}`;
  addComponent(server, "controller", "registry.example.com:5000/switchback:0.1.0");
  addComponent(server, "proxy", `registry.example.com:5000/switchback@${digest}`);
  addComponent(server, "webhook", `switchback:0.2.0@${digest}`);
  server.add(DEPLOYMENTS, "another");
  addConfig(server, { "config.yaml": "" });
  return server;
}

async function version(server: MemoryServer | undefined, ...args: string[]) {
  api = await fakeApi(server?.respond ?? refuse(403, "Forbidden"));
  try {
    return await runHere(["version", ...args], { KUBECONFIG: await files.kubeconfig(api.url) });
  } finally {
    await api.close();
  }
}

describe("version", () => {
  it("--client sends no request to a cluster", async () => {
    assert.deepEqual(await runHere(["version", "--client"], {}), {
      code: 0,
      stdout: `switchback ${OWN}\n`,
      stderr: "",
    });
    assert.deepEqual((await runHere(["--version"], {})).stdout, `${OWN}\n`);
    assert.deepEqual((await runHere(["-V"], {})).code, 0);
  });

  it("prints each component's version from its image's tag, else from its label", async () => {
    const { code, stdout, stderr } = await version(install(), "-n", "ours");
    assert.deepEqual([code, stderr], [0, ""]);
    assert.equal(
      stdout,
      `switchback ${OWN}

  COMPONENT   VERSION  READY
  ----------  -------  -----
  controller  0.1.0    1/2
  proxy       0.9.0    1/2
  webhook     0.2.0    1/2
`,
    );
  });

  it("prints the components as JSON, and their names", async () => {
    const { client, components } = JSON.parse((await version(install(), "-n", "ours", "-o", "json")).stdout);
    assert.equal(client, OWN);
    assert.deepEqual(components[0], {
      component: "controller",
      kind: "Deployment",
      namespace: "ours",
      name: "switchback-controller",
      version: "0.1.0",
      image: "registry.example.com:5000/switchback:0.1.0",
      ready: 1,
      desired: 2,
    });
    const names = await version(install(), "-n", "ours", "-o", "name");
    assert.equal(names.stdout.split("\n")[0], "ours/Deployment/switchback-controller");
  });

  it("reports where it looked if Switchback is not installed", async () => {
    const { code, stdout, stderr } = await version(new MemoryServer(), "-n", "elsewhere");
    assert.deepEqual([code, stdout], [2, `switchback ${OWN}\n`]);
    assert.match(stderr, /^switchback: no Deployment of Switchback in namespace elsewhere; .*--namespace/);
  });

  it("names the Role that is missing", async () => {
    const { code, stdout, stderr } = await version(undefined);
    assert.deepEqual([code, stdout], [1, `switchback ${OWN}\n`]);
    assert.deepEqual(JSON.parse((await version(undefined, "-o=json")).stdout), { client: OWN });
    assert.match(stderr, /switchback: the ClusterRole switchback-reader has the right/);
  });
});
