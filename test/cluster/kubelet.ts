import type { ApiAnswer, ApiRequest } from "./api.ts";

type Call = (request: Omit<ApiRequest, "token">) => Promise<ApiAnswer>;

/** The one node of a test control plane. */
export const NODE = "node-1";
const CONFLICT = 409;

/**
 * Binds a pod (`<namespace>/<name>`) to a node, and sets its status to running and ready. The node is only an object.
 * It must exist, because kube-controller-manager leaves pods without a node out of EndpointSlices.
 */
export async function playKubelet(call: Call, pod: string, ip: string): Promise<void> {
  const [namespace, name] = pod.split("/");
  const path = `/api/v1/namespaces/${namespace}/pods/${name}`;
  const expect = async (request: Omit<ApiRequest, "token">, allowed: number[]): Promise<void> => {
    const { status, body } = await call(request);
    if (!allowed.includes(status)) throw new Error(`${request.path}: ${status} ${JSON.stringify(body)}`);
  };
  const node = { apiVersion: "v1", kind: "Node", metadata: { name: NODE } };
  await expect({ method: "POST", path: "/api/v1/nodes", body: node }, [201, CONFLICT]);
  const target = { apiVersion: "v1", kind: "Node", name: NODE };
  const binding = { apiVersion: "v1", kind: "Binding", metadata: { name }, target };
  await expect({ method: "POST", path: `${path}/binding`, body: binding }, [201, CONFLICT]);
  const contentType = "application/merge-patch+json";
  await expect({ method: "PATCH", path: `${path}/status`, contentType, body: { status: runningStatus(ip) } }, [200]);
}

/**
 * Creates a pod of a ServiceAccount on a node. The node is created as an object if it is missing. Returns the
 * reference that a token of the pod needs.
 */
export async function createPodOn(
  call: Call,
  node: string,
  namespace: string,
  serviceAccount: string,
): Promise<object> {
  await call({
    method: "POST",
    path: "/api/v1/nodes",
    body: { apiVersion: "v1", kind: "Node", metadata: { name: node } },
  });
  const containers = [{ name: "none", image: "none" }];
  const spec = { serviceAccountName: serviceAccount, nodeName: node, automountServiceAccountToken: false, containers };
  const pod = { apiVersion: "v1", kind: "Pod", metadata: { generateName: "token-" }, spec };
  const { status, body } = await call({ method: "POST", path: `/api/v1/namespaces/${namespace}/pods`, body: pod });
  if (status !== 201) throw new Error(`no pod for ${serviceAccount}: ${status} ${JSON.stringify(body)}`);
  const { name, uid } = (body as { metadata: { name: string; uid: string } }).metadata;
  return { apiVersion: "v1", kind: "Pod", name, uid };
}

function runningStatus(ip: string): object {
  const now = new Date().toISOString();
  const conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"];
  return {
    phase: "Running",
    podIP: ip,
    podIPs: [{ ip }],
    startTime: now,
    conditions: conditions.map((type) => ({ type, status: "True", lastTransitionTime: now })),
  };
}
