import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { deployment, service } from "../cluster/addons/objects.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { installSwitchback, OPT_IN, SYSTEM } from "./switchback.ts";
import { anyCluster, type Where } from "./where.ts";

// What any cluster can show, with nothing but the image of Switchback: a stand-in for an ingress controller that refuses whoever sends
// no PROXY header, a pod that opted in, one that did not, and leaving.

const NAMESPACE = "switchback-e2e";
const CLASS = "switchback-e2e";
const HOST = "any.switchback-e2e.example.com";

/** Answers with the client's address as the PROXY header has it, and resets who sends none. */
const STRICT = `require("node:net").createServer((socket) => {
  let text = "";
  socket.on("error", () => {}).on("data", (data) => {
    text += data;
    const [, address] = /^PROXY TCP[46] (\\S+) /.exec(text) ?? [];
    if (!text.startsWith("PROXY ".slice(0, text.length))) return socket.resetAndDestroy();
    if (!text.includes("\\r\\n\\r\\n")) return;
    socket.end("HTTP/1.1 200 OK\\r\\nconnection: close\\r\\ncontent-length: " + address.length + "\\r\\n\\r\\n" + address);
  });
}).listen(8080)`;
const IDLE = "setInterval(() => {}, 1e6)";
const GET = `fetch("http://${HOST}/", { signal: AbortSignal.timeout(5000) }).then((it) => it.text()).then(console.log)`;

let where: Where;
let cluster: Cluster;

before(async () => {
  where = await anyCluster();
  cluster = where.cluster;
  const webhooks = await cluster.kubectl("get", "mutatingwebhookconfigurations", "-o", "name");
  assert.ok(!webhooks.includes("switchback-webhook"), "Switchback is installed in this cluster: uninstall it first");
  await cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=120s");
  await cluster.kubectl("create", "namespace", NAMESPACE);
  await cluster.apply(
    node("strict", STRICT, { ports: { http: 8080 }, readinessProbe: { tcpSocket: { port: "http" } } }),
    service(NAMESPACE, "strict", { app: "strict", ports: [{ name: "http", port: 80, targetPort: "http" }] }),
    node("plain", IDLE),
    ingress(),
  );
  await cluster.rolledOut(NAMESPACE, "deployment/strict", "deployment/plain");
});

after(async () => {
  await cluster?.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=120s");
});

/** A program that the image's Node runs. */
function node(name: string, script: string, more: object = {}) {
  const { repository, tag, pullPolicy } = where.image;
  const image = `${repository}:${tag}`;
  return deployment({ namespace: NAMESPACE, name, image, pullPolicy, command: ["node", "-e", script], ...more });
}

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

/** GET from a pod, and what went wrong. */
async function get(name: string): Promise<{ code: number; text: string }> {
  const { code, stdout, stderr } = await cluster.exec(`${NAMESPACE}/deployment/${name}`, "node", "-e", GET);
  return { code, text: (stdout || stderr).trim() };
}

test("the chart installs, and the name of the Ingress is published", async () => {
  const upstream = { service: { namespace: NAMESPACE, name: "strict" } };
  const targets = [{ name: "strict", upstream, classes: [CLASS], ports: [{ port: 80, protocol: "v1" }] }];
  await installSwitchback(cluster, { config: { targets }, image: where.image });
  await cluster.until("the name is published", 60, async () => {
    const maps = await cluster.kubectl("-n", SYSTEM, "get", "configmaps", "-l", "switchback.dev/map", "-o", "yaml");
    return maps.includes(HOST) || undefined;
  });
});

test("a pod that opted in is answered, with its own address in the header; one that did not is not", async () => {
  await cluster.kubectl("label", "namespace", NAMESPACE, OPT_IN);
  await cluster.apply(node("client", IDLE));
  await cluster.rolledOut(NAMESPACE, "deployment/client");
  const pods = ["-n", NAMESPACE, "get", "pods", "-l", "app=client", "-o", "jsonpath={.items[0].status.podIP}"];
  const address = await cluster.kubectl(...pods);
  await cluster.until("an answer", 30, async () => {
    const { text } = await get("client");
    assert.equal(text, address);
    return true;
  });
  assert.notEqual((await get("plain")).code, 0);
});

test("helm uninstall refuses while that pod holds our address, and leaves nothing once it is gone", async () => {
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
