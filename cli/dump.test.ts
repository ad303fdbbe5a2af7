import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, describe, test } from "node:test";
import { captured, filesFolder, runHere } from "#test/fakes/cli.ts";
import { installed } from "#test/fakes/installed.ts";
import { type FakeApi, fakeApi } from "#test/fakes/kube-api.ts";
import { type MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import { dump } from "./dump.ts";

const BALANCER = { loadBalancer: { ingress: [{ ip: "203.0.113.7" }] } };
const base64 = (text: string) => Buffer.from(text).toString("base64");

let files: Awaited<ReturnType<typeof filesFolder>>;
let server: MemoryServer;
let api: FakeApi;
let kubeconfig: string;
before(async () => {
  files = await filesFolder();
});
after(() => files.remove());
beforeEach(async () => {
  server = installed();
  server.add("/api/v1/namespaces/edge/services", "nginx", {
    metadata: { labels: { "app.kubernetes.io/name": "ingress-nginx" } },
    spec: { type: "LoadBalancer", clusterIPs: ["198.51.100.1"], ports: [{ name: "https", port: 443 }] },
    status: BALANCER,
  });
  server.add("/apis/networking.k8s.io/v1/namespaces/shop/ingresses", "web", {
    metadata: { annotations: { "nginx.ingress.kubernetes.io/server-snippet": "set $token SECRET;" } },
    spec: { ingressClassName: "nginx", rules: [{ host: "shop.example.com" }] },
    status: BALANCER,
  });
  api = await fakeApi(server.respond);
  kubeconfig = await files.kubeconfig(api.url);
});
afterEach(() => api.close());

async function dumped(): Promise<string> {
  const { context, written } = captured();
  await dump("0.0.0", { namespace: "ours", probeNamespace: "probes", kubeconfig }, context);
  return written.stdout;
}

async function findings(args: readonly string[]): Promise<string> {
  const { stdout, stderr } = await runHere(["doctor", ...args, "-o", "json"], {});
  assert.match(stdout, /"findings"/, stderr);
  return stdout;
}

const ofCluster = () => findings(["-n", "ours", "--probe-namespace", "probes", "--kubeconfig", kubeconfig]);
const ofDump = async () => findings(["--from", await files.file("dump.yaml", await dumped())]);

describe("doctor finds the same in a dump", () => {
  test("of an installed cluster", async () => {
    assert.equal(await ofDump(), await ofCluster());
    assert.match(await ofDump(), /edge\/nginx/);
  });

  test("of a cluster that refuses much", async () => {
    server.onCall = ({ path }) => (/services|secrets|issuers|pods/.test(path) ? refusal(403, "Forbidden") : undefined);
    assert.equal(await ofDump(), await ofCluster());
    assert.match(await ofDump(), /missing permission/);
  });

  test("where requests fail", async () => {
    server.onCall = ({ path }) => (/ingresses|gateways|nodes/.test(path) ? refusal(500, "InternalError") : undefined);
    assert.equal(await ofDump(), await ofCluster());
    assert.match(await ofDump(), /not-read/);
  });
});

test("a dump has no Secret, and no field that may have one", async () => {
  const containers = [{ name: "a", image: "a:1", env: [{ name: "PASSWORD", value: "SECRET" }] }];
  server.add("/api/v1/namespaces/ours/secrets", "switchback-webhook-tls", {
    data: { "tls.crt": base64("PUBLIC"), "tls.key": base64("SECRET") },
  });
  server.add("/api/v1/namespaces/ours/secrets", "switchback-status", { data: { key: base64("SECRET".repeat(8)) } });
  server.add("/apis/apps/v1/namespaces/ours/deployments", "web", {
    kind: "Deployment",
    spec: { template: { spec: { containers } } },
  });
  server.add("/api/v1/namespaces/shop/pods", "web", {
    kind: "Pod",
    metadata: { labels: { "switchback.dev/inject": "enabled" } },
    spec: { containers },
  });
  server.add("/apis/cert-manager.io/v1/clusterissuers", "le", {
    kind: "ClusterIssuer",
    spec: { acme: { email: "SECRET", solvers: [{ dns01: { token: "SECRET" } }, { http01: { ingress: {} } }] } },
  });
  const text = await dumped();
  assert.doesNotMatch(text, /SECRET|PASSWORD/);
  for (const secret of ["SECRET", "SECRET".repeat(8)]) assert.ok(!text.includes(base64(secret)));
  assert.doesNotMatch(text, /"kind":"Secret"/);
  assert.ok(text.includes(base64("PUBLIC")), "every client of the webhook gets the certificate");
  assert.match(text, /"a:1"/);
  assert.deepEqual(
    server.writes.filter((each) => !each.endsWith("/pods")),
    [],
  );
});
