import { gatewayApiDefinitions } from "#test/cluster/addons/definitions.ts";
import { type Bed, type Change, each, type Names, namespacesFor } from "./bed.ts";

const GROUP = "gateway.networking.k8s.io";
const API = `/apis/${GROUP}/v1`;
const NAMESPACE = "gateways";
const PARENT = { namespace: NAMESPACE, name: "gateway" };
/** The address of the Gateway's load balancer. */
const IP = "203.0.113.7";
const CONDITION = { status: "True", message: "", observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z" };
const ACCEPTED = { ...CONDITION, type: "Accepted", reason: "Accepted" };

/** HTTPRoutes of one Gateway, which has a LoadBalancer Service as Envoy Gateway and Istio create it. */
export class Routes implements Names {
  readonly #bed: Bed;
  #changes = 0;

  constructor(bed: Bed) {
    this.#bed = bed;
  }

  async seed(count: number): Promise<void> {
    const { cluster } = this.#bed;
    const input = await gatewayApiDefinitions(["gatewayclasses", "gateways", "httproutes", "grpcroutes"]);
    const { code, stderr } = await cluster.tool("kubectl", ["apply", "--server-side", "-f", "-"], { input });
    if (code !== 0) throw new Error(stderr);
    await cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all");
    await this.#bed.createNamespace(NAMESPACE);
    await this.#bed.createNamespace("routes-new");
    await this.#gateway();
    const namespaceOf = await namespacesFor(this.#bed, "routes", count);
    await each(count, (index) => this.#route(namespaceOf(index), `route-${index}`));
  }

  /**
   * A new route. It counts only once its controller has written its status, so both writes are part of it. The quota
   * of its namespace has room for 250.
   */
  next(): Change {
    const number = this.#changes++;
    const [namespace, name] = ["routes-new", `change-${number}`];
    return { host: hostOf(namespace, name), write: () => this.#route(namespace, name) };
  }

  async #gateway(): Promise<void> {
    const services = `/api/v1/namespaces/${NAMESPACE}/services`;
    const annotations = { "switchback.dev/proxy-protocol": "v1" };
    const service = { metadata: { name: PARENT.name, annotations } };
    await this.#bed.create(services, { ...service, spec: { type: "LoadBalancer", ports: [{ port: 443 }] } });
    await this.#status(`${services}/${PARENT.name}`, { loadBalancer: { ingress: [{ ip: IP }] } });
    const gateways = `${API}/namespaces/${NAMESPACE}/gateways`;
    const allowedRoutes = { namespaces: { from: "All" } };
    const listeners = [{ name: "https", port: 443, protocol: "HTTP", allowedRoutes }];
    const head = { apiVersion: `${GROUP}/v1`, kind: "Gateway", metadata: { name: PARENT.name } };
    await this.#bed.create(gateways, { ...head, spec: { gatewayClassName: "one", listeners } });
    const conditions = [ACCEPTED, { ...ACCEPTED, type: "Programmed", reason: "Programmed" }];
    const listener = { name: "https", attachedRoutes: 0, supportedKinds: [{ kind: "HTTPRoute" }], conditions };
    const addresses = [{ type: "IPAddress", value: IP }];
    await this.#status(`${gateways}/${PARENT.name}`, { addresses, conditions, listeners: [listener] });
  }

  async #route(namespace: string, name: string): Promise<void> {
    const collection = `${API}/namespaces/${namespace}/httproutes`;
    const rules = [{ backendRefs: [{ name, port: 8080 }] }];
    const spec = { parentRefs: [PARENT], hostnames: [hostOf(namespace, name)], rules };
    await this.#bed.create(collection, { apiVersion: `${GROUP}/v1`, kind: "HTTPRoute", metadata: { name }, spec });
    const parent = { parentRef: PARENT, controllerName: "example.com/one", conditions: [ACCEPTED] };
    await this.#status(`${collection}/${name}`, { parents: [parent] });
  }

  async #status(path: string, status: object): Promise<void> {
    await this.#bed.patch(`${path}/status`, { status });
  }
}

function hostOf(namespace: string, name: string): string {
  return `${name}.${namespace}.example.com`;
}
