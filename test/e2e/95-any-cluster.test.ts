import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { service } from "../cluster/addons/objects.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { withCluster } from "../cluster/whole.ts";
import { clusterTarget } from "./cluster-target.ts";
import { programCommand, programDeployment } from "./programs/run.ts";
import type { Answer } from "./shop.ts";
import { installSwitchback, OPT_IN, publishedMap, SYSTEM } from "./switchback.ts";

// What every cluster can test with only the image of Switchback: a stand-in for an ingress controller that rejects
// clients without a PROXY header, a pod that opted in, a pod that did not, and the uninstall.

export const needs: string[] = [];

const NAMESPACE = "switchback-e2e";
const CLASS = "switchback-e2e";
const HOST = "any.switchback-e2e.example.com";

const SLEEP = programCommand("client", "sleep");

let cluster: Cluster;

before(async () => {
  cluster = clusterTarget().other ?? (await withCluster());
  const webhooks = await cluster.kubectl("get", "mutatingwebhookconfigurations", "-o", "name");
  assert.ok(!webhooks.includes("switchback-webhook"), "Switchback is installed in this cluster: uninstall it first");
  await cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=120s");
  await cluster.kubectl("create", "namespace", NAMESPACE);
  await cluster.apply(
    programDeployment(NAMESPACE, "strict", programCommand("strict"), {
      ports: { http: 8080 },
      readinessProbe: { tcpSocket: { port: "http" } },
    }),
    service(NAMESPACE, "strict", { app: "strict", ports: [{ name: "http", port: 80, targetPort: "http" }] }),
    programDeployment(NAMESPACE, "plain", SLEEP),
    ingress(),
  );
  await cluster.rolledOut(NAMESPACE, "deployment/strict", "deployment/plain");
});

after(async () => {
  await cluster?.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=120s");
});

function ingress() {
  const backend = { service: { name: "strict", port: { name: "http" } } };
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "Ingress",
    metadata: { namespace: NAMESPACE, name: "any" },
    spec: {
      ingressClassName: CLASS,
      rules: [{ host: HOST, http: { paths: [{ path: "/", pathType: "Prefix", backend }] } }],
    },
  };
}

/** GET from a pod. Returns the body; undefined if there was no answer. */
async function get(name: string): Promise<string | undefined> {
  const command = programCommand("client", "get", `http://${HOST}/`);
  const { stdout, stderr } = await cluster.exec(`${NAMESPACE}/deployment/${name}`, ...command);
  assert.ok(stdout.startsWith("{"), stderr);
  return (JSON.parse(stdout) as Answer).body;
}

test("the chart installs, and the name of the Ingress is published", async () => {
  const upstream = { service: { namespace: NAMESPACE, name: "strict" } };
  const targets = [{ name: "strict", upstream, classes: [CLASS], ports: [{ port: 80, protocol: "v1" }] }];
  await installSwitchback(cluster, { config: { targets } });
  await cluster.until("the name is published", 60, async () => {
    return (await publishedMap(cluster)).includes(HOST) || undefined;
  });
});

test("a pod that opted in is answered, with its own address in the header; one that did not is not", async () => {
  await cluster.kubectl("label", "namespace", NAMESPACE, OPT_IN);
  await cluster.apply(programDeployment(NAMESPACE, "client", SLEEP));
  await cluster.rolledOut(NAMESPACE, "deployment/client");
  const pods = ["-n", NAMESPACE, "get", "pods", "-l", "app=client", "-o", "jsonpath={.items[0].status.podIPs[*].ip}"];
  const addresses = (await cluster.kubectl(...pods)).split(" ");
  await cluster.until("an answer", 30, async () => {
    assert.ok(addresses.includes((await get("client")) ?? ""));
    return true;
  });
  assert.equal(await get("plain"), undefined);
});

test("helm uninstall refuses while that pod holds our address, and leaves nothing after the pod is gone", async () => {
  const uninstall = ["uninstall", "switchback", "--namespace", SYSTEM, "--wait"];
  const refused = await cluster.tool("helm", uninstall);
  assert.match(refused.stdout + refused.stderr, /switchback-e2e\/Deployment\/client \(.*\): .* restart it/);
  assert.notEqual(refused.code, 0);
  await cluster.kubectl("-n", NAMESPACE, "delete", "deployment", "client", "--cascade=foreground", "--timeout=60s");
  const gone = await cluster.tool("helm", uninstall);
  assert.equal(gone.code, 0, gone.stderr);
  const kinds = "deployments,services,configmaps,secrets,leases,roles,rolebindings,jobs";
  const left = await cluster.kubectl("-n", SYSTEM, "get", kinds, "-o", "name");
  assert.doesNotMatch(left, /switchback/);
  await cluster.kubectl("delete", "namespace", SYSTEM, "--timeout=120s");
});
