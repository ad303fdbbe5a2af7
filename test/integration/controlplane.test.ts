import assert from "node:assert/strict";
import { once } from "node:events";
import { access } from "node:fs/promises";
import { createServer as createHttpServer } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { after, before, describe, it } from "node:test";
import { type ControlPlane, startControlPlane } from "../cluster/controlplane.ts";
import { sourceOf } from "../cluster/modules.ts";
import type { KeyPair } from "../cluster/pki.ts";

let cluster: ControlPlane;
before(async () => {
  cluster = await startControlPlane();
});
after(async () => {
  await cluster.stop();
  await assert.rejects(access(cluster.folder), { code: "ENOENT" });
});

/** Applies objects as the admin. */
async function apply(...items: object[]): Promise<void> {
  const input = JSON.stringify({ apiVersion: "v1", kind: "List", items });
  const { code, stderr } = await cluster.tool("kubectl", ["apply", "--server-side", "-f", "-"], { input });
  assert.equal(code, 0, stderr);
}

const configMap = (namespace: string, name: string) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { namespace, name },
});

describe("identities", () => {
  it("the admin's kubectl and helm see an API server of the version that is tested", async () => {
    const version = await cluster.kubectl("version", "-o", "json");
    assert.equal(JSON.parse(version.stdout).serverVersion.gitVersion, sourceOf("kube-apiserver").version);
    const list = await cluster.helm("list", "-A", "-o", "json");
    assert.deepEqual([list.code, JSON.parse(list.stdout)], [0, []], list.stderr);
  });

  it("a ServiceAccount's token and a client certificate may do what RBAC says, and no more", async () => {
    await apply(
      { apiVersion: "v1", kind: "ServiceAccount", metadata: { namespace: "default", name: "reader" } },
      {
        apiVersion: "rbac.authorization.k8s.io/v1",
        kind: "ClusterRoleBinding",
        metadata: { name: "readers" },
        roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "view" },
        subjects: [
          { kind: "ServiceAccount", namespace: "default", name: "reader" },
          { apiGroup: "rbac.authorization.k8s.io", kind: "Group", name: "readers" },
        ],
      },
    );
    for (const identity of [
      { token: await cluster.tokenFor("default/reader") },
      { clientCert: cluster.ca.client("someone", ["readers"]) },
    ]) {
      const kubeconfig = await cluster.kubeconfigFor(identity);
      const read = await cluster.tool("kubectl", ["get", "pods"], { kubeconfig });
      assert.equal(read.code, 0, read.stderr);
      const write = await cluster.tool("kubectl", ["create", "configmap", "x"], { kubeconfig });
      assert.match(write.stderr, /forbidden/);
    }
  });

  it("a token that nobody issued is refused", async () => {
    assert.equal((await cluster.call({ path: "/api/v1/namespaces", token: "made-up" })).status, 401);
  });
});

describe("kube-controller-manager", () => {
  it("creates the pods of a Deployment, and deletes them with it", async () => {
    const labels = { app: "web" };
    await apply({
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { namespace: "default", name: "web" },
      spec: {
        replicas: 2,
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: { containers: [{ name: "web", image: "example.com/web:1" }] } },
      },
    });
    const waitFor = (condition: string) =>
      cluster.kubectl("wait", "--timeout=20s", `--for=${condition}`, "pod", "-l", "app=web");
    const rollout = await cluster.kubectl(
      "wait",
      "--timeout=20s",
      "--for=jsonpath={.status.replicas}=2",
      "deployment/web",
    );
    assert.equal(rollout.code, 0, rollout.stderr);
    await cluster.kubectl("delete", "deployment", "web");
    const gone = await waitFor("delete");
    assert.equal(gone.code, 0, gone.stderr);
  });
});

describe("a webhook by clientConfig.service", () => {
  const servers: Server[] = [];
  after(() => {
    for (const server of servers) server.closeAllConnections();
    for (const server of servers) server.close();
  });

  /**
   * Starts an admission webhook that allows everything. Returns its port and the names of the objects in its
   * requests.
   */
  async function startWebhook({ key, cert }: KeyPair): Promise<{ port: number; seen: string[] }> {
    const seen: string[] = [];
    const server = createServer({ key, cert }, async (request, response) => {
      const review = (await json(request)) as { request: { uid: string; name: string } };
      seen.push(review.request.name);
      const answer = { uid: review.request.uid, allowed: true };
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", response: answer }));
    });
    servers.push(server);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return { port: (server.address() as AddressInfo).port, seen };
  }

  /** Creates a namespace with a Service, and a fail-closed webhook configuration for the ConfigMaps in it. */
  async function register(namespace: string): Promise<void> {
    await apply(
      { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } },
      {
        apiVersion: "v1",
        kind: "Service",
        metadata: { namespace, name: "hook" },
        spec: { ports: [{ port: 443 }], selector: { app: "hook" } },
      },
      {
        apiVersion: "admissionregistration.k8s.io/v1",
        kind: "ValidatingWebhookConfiguration",
        metadata: { name: namespace },
        webhooks: [
          {
            name: "hook.example.com",
            admissionReviewVersions: ["v1"],
            sideEffects: "None",
            failurePolicy: "Fail",
            timeoutSeconds: 5,
            clientConfig: {
              service: { namespace, name: "hook", path: "/validate" },
              caBundle: Buffer.from(cluster.ca.cert).toString("base64"),
            },
            namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
            rules: [{ apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["configmaps"] }],
          },
        ],
      },
    );
  }

  /** Creates ConfigMaps until the API server has seen the new configuration and calls the webhook. */
  async function createUntilCalled(
    namespace: string,
    called: () => boolean,
  ): Promise<{ status: number; text: string }> {
    for (let i = 0; i < 100; i++) {
      const path = `/api/v1/namespaces/${namespace}/configmaps`;
      const { status, body } = await cluster.call({ method: "POST", path, body: configMap(namespace, `try-${i}`) });
      if (status !== 201 || called()) return { status, text: JSON.stringify(body) };
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error("the webhook was never called");
  }

  it("reaches a port of 127.0.0.1 through the Service's ClusterIP, and verifies its certificate", async () => {
    await register("hook-good");
    const hook = await startWebhook(cluster.ca.serving(["hook.hook-good.svc"]));
    cluster.routeService("hook-good/hook", 443, [hook.port]);
    const answer = await createUntilCalled("hook-good", () => hook.seen.length > 0);
    assert.equal(answer.status, 201, answer.text);
  });

  it("refuses a certificate of another name", async () => {
    await register("hook-other");
    const hook = await startWebhook(cluster.ca.serving(["hook.elsewhere.svc"]));
    cluster.routeService("hook-other/hook", 443, [hook.port]);
    const answer = await createUntilCalled("hook-other", () => hook.seen.length > 0);
    assert.equal(answer.status, 500);
    assert.match(answer.text, /certificate is valid for hook\.elsewhere\.svc, not hook\.hook-other\.svc/);
    assert.deepEqual(hook.seen, []);
  });

  it("cannot be called without a route", async () => {
    await register("hook-gone");
    const answer = await createUntilCalled("hook-gone", () => false);
    assert.match(answer.text, /502 no route/);
  });

  it("is seen in the API server's metrics", async () => {
    assert.match(
      await cluster.metrics(),
      /apiserver_admission_webhook_rejection_count\{[^}]*name="hook\.example\.com"/,
    );
  });
});

describe("the proxy subresource of a Service", () => {
  it("reaches a port of 127.0.0.1 through the address of its pod", async () => {
    const server = createHttpServer((request, response) => response.end(`you asked for ${request.url}`));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    try {
      const labels = { app: "status" };
      await apply(
        {
          apiVersion: "v1",
          kind: "Service",
          metadata: { namespace: "default", name: "status" },
          spec: { selector: labels, ports: [{ name: "http", port: 80, targetPort: 8080 }] },
        },
        {
          apiVersion: "v1",
          kind: "Pod",
          metadata: { namespace: "default", name: "status-1", labels },
          spec: { containers: [{ name: "status", image: "example.com/status:1" }] },
        },
      );
      await cluster.runPod("default/status-1", "203.0.113.7", { 8080: (server.address() as AddressInfo).port });
      const seen = ["--for=jsonpath={.subsets[0].addresses[0].ip}=203.0.113.7", "endpoints/status"];
      const wait = await cluster.kubectl("wait", "--timeout=20s", ...seen);
      assert.equal(wait.code, 0, wait.stderr);
      const path = "/api/v1/namespaces/default/services/status:http/proxy/status?x=1";
      const { status, body } = await cluster.call({ path });
      assert.deepEqual({ status, body }, { status: 200, body: "you asked for /status?x=1" });
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });
});

describe("the API server's restart", () => {
  it("keeps the data and the address", async () => {
    await apply(configMap("default", "kept"));
    await cluster.restartApiServer("SIGKILL");
    assert.equal((await cluster.kubectl("get", "configmap", "kept")).code, 0);
  });
});
