import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { NOTHING_ADDED } from "#doctor/added-checks.ts";
import { fullStatus } from "#test/fakes/full-status.ts";
import { NAMESPACE } from "#test/fakes/installed.ts";
import { type FakeApi, type FakeCall, fakeApi, json, refuse } from "#test/fakes/kube-api.ts";
import { readComponents, readMetrics } from "./cluster.ts";

let api: FakeApi | undefined;
afterEach(() => api?.close());

const SLICES = `/apis/discovery.k8s.io/v1/namespaces/${NAMESPACE}/endpointslices`;
const list = (...items: object[]) =>
  json({ kind: "List", metadata: { resourceVersion: "1" }, items: items.map((item) => ({ metadata: {}, ...item })) });
const pod = (name: string, ready = true) => ({
  addresses: ["192.0.2.1"],
  conditions: { ready },
  targetRef: { kind: "Pod", name },
});
const serviceOf = ({ query }: FakeCall) => query.get("labelSelector")?.split("=")[1];

/**
 * An API server with two proxies, a controller and no webhook. `answer` responds to requests for a replica's metrics.
 */
async function replicas(answer: (call: FakeCall) => void) {
  api = await fakeApi((call) => {
    if (call.path !== SLICES) return answer(call);
    if (serviceOf(call) === "switchback-proxy")
      return list({
        endpoints: [pod("proxy-a"), pod("proxy-b", false)],
        ports: [
          { name: "other", port: 1 },
          { name: "metrics", port: 8082 },
        ],
      })(call);
    if (serviceOf(call) === "switchback-controller")
      return list({ endpoints: [pod("controller-a")], ports: [{ name: "http", port: 8080 }] })(call);
    return list({ endpoints: null, ports: null })(call);
  });
  return api;
}

const text =
  (body: string) =>
  ({ response }: FakeCall) =>
    void response.end(body);

test("reads each replica, ready or not, through the API server, and leaves out one that does not answer", async () => {
  const { client, calls } = await replicas((call) => {
    if (call.path.includes("proxy-b")) return refuse(503, "ServiceUnavailable")(call);
    return text('switchback_proxy_connections_total{target="edge"} 7\nother 1\n')(call);
  });
  const read = await readMetrics(client, NAMESPACE);
  assert.deepEqual(read.known && read.value.map(({ pod, series }) => [pod, series.map(({ name }) => name)]), [
    ["controller-a:8080", ["switchback_proxy_connections_total"]],
    ["proxy-a:8082", ["switchback_proxy_connections_total"]],
  ]);
  const asked = calls.map(({ path }) => path).filter((path) => path !== SLICES);
  const proxied = (name: string) => `/api/v1/namespaces/${NAMESPACE}/pods/${name}/proxy/metrics`;
  assert.deepEqual(asked.sort(), ["controller-a:8080", "proxy-a:8082", "proxy-b:8082"].map(proxied));
});

test("without the right to read a replica's metrics, nothing is known, and the reason names the right", async () => {
  const { client } = await replicas(refuse(403, "Forbidden"));
  const read = await readMetrics(client, NAMESPACE);
  assert.deepEqual(read, {
    known: false,
    reason: { code: "right-missing", text: `missing permission: get pods/proxy in the namespace ${NAMESPACE}` },
  });
});

test("components: a part that may not be read is unknown separately; upstreams are Services of targets", async () => {
  api = await fakeApi((call) => {
    if (call.path.includes("/deployments")) return refuse(403, "Forbidden")(call);
    if (call.path.includes("/leases")) return list()(call);
    if (call.path.includes("/ingress-nginx/endpointslices"))
      return list({ endpoints: [pod("a"), pod("b", false)] })(call);
    return refuse(404, "NotFound")(call);
  });
  const [target] = fullStatus().targets;
  assert.ok(target);
  const targets = [target, { ...target, name: "host", upstream: "203.0.113.7" }];
  const { deployments, agents, upstreams } = await readComponents(api.client, NAMESPACE, NOTHING_ADDED, { targets });
  assert.equal(deployments.known ? "" : deployments.reason.code, "right-missing");
  assert.deepEqual(agents, { known: true, value: [] });
  assert.deepEqual(upstreams, {
    known: true,
    value: [{ namespace: "ingress-nginx", name: "ingress-nginx-controller", ready: 1 }],
  });
});
