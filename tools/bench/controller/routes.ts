import { createSocket } from "node:dgram";
import { gatewayApiDefinitions } from "#test/cluster/addons/gateway-api.ts";
import type { ControlPlane } from "#test/cluster/controlplane.ts";
import { progress } from "../report.ts";
import type { Change } from "./ingresses.ts";

const GROUP = "gateway.networking.k8s.io";
const API = `/apis/${GROUP}/v1`;
const NAMESPACE = "gateways";
const GATEWAYS = 200;
/** Below the quota of 250 names per source namespace. */
const PER_NAMESPACE = 200;
const CONCURRENCY = 16;

/** HTTPRoutes and their Gateways. Each Gateway has a LoadBalancer Service, as Envoy Gateway and Istio create them. */
export class Routes {
  readonly #cluster: ControlPlane;
  #gateways = 0;
  #seeded = 0;
  #changes = 0;

  private constructor(cluster: ControlPlane) {
    this.#cluster = cluster;
  }

  /** Registers the kinds with the API server. */
  static async prepare(cluster: ControlPlane): Promise<Routes> {
    const plurals = ["gatewayclasses", "gateways", "httproutes", "grpcroutes"];
    const yaml = await gatewayApiDefinitions(plurals);
    const { code, stderr } = await cluster.tool("kubectl", ["apply", "--server-side", "-f", "-"], { input: yaml });
    if (code !== 0) throw new Error(stderr);
    const wait = ["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"];
    await cluster.kubectl(...wait);
    const routes = new Routes(cluster);
    await routes.#create("/api/v1/namespaces", { metadata: { name: NAMESPACE } });
    return routes;
  }

  /** Increases the number of HTTPRoutes to `count`, with a fiftieth as many Gateways. */
  async seed(count: number): Promise<void> {
    const gateways = Math.min(GATEWAYS, Math.ceil(count / 50));
    await inParallel(this.#gateways, gateways, (index) => this.#gateway(index));
    this.#gateways = Math.max(this.#gateways, gateways);
    for (let team = Math.ceil(this.#seeded / PER_NAMESPACE); team * PER_NAMESPACE < count; team += 1) {
      await this.#create("/api/v1/namespaces", { metadata: { name: `routes-${team}` } });
    }
    await inParallel(this.#seeded, count, (index) => this.#route(index, gateways));
    this.#seeded = Math.max(this.#seeded, count);
  }

  /**
   * The next change: a seeded route with another hostname. A new route counts only after its controller's status,
   * which is a second write.
   */
  nextChange(): Change {
    const number = this.#changes++;
    const host = `change-${number}.routes-new.example.com`;
    // A prime step: consecutive changes are in different namespaces and on different Gateways, and a route is changed
    // again only much later.
    const { path } = seededSpot((number * 7_919) % this.#seeded);
    return { host, write: () => this.#call("PATCH", path, { spec: { hostnames: [host] } }, 200) };
  }

  async #gateway(index: number): Promise<void> {
    const name = `gateway-${index}`;
    const ip = `203.0.${Math.floor(index / 250)}.${(index % 250) + 1}`;
    const services = `/api/v1/namespaces/${NAMESPACE}/services`;
    const annotations = { "switchback.dev/proxy-protocol": "v1" };
    const spec = { type: "LoadBalancer", ports: [{ port: 443 }] };
    await this.#create(services, { metadata: { name, annotations }, spec });
    await this.#status(`${services}/${name}`, { loadBalancer: { ingress: [{ ip }] } });
    const gateways = `${API}/namespaces/${NAMESPACE}/gateways`;
    const allowedRoutes = { namespaces: { from: "All" } };
    const listeners = [{ name: "https", port: 443, protocol: "HTTP", allowedRoutes }];
    const head = { apiVersion: `${GROUP}/v1`, kind: "Gateway", metadata: { name } };
    await this.#create(gateways, { ...head, spec: { gatewayClassName: "many", listeners } });
    const accepted = [condition("Accepted"), condition("Programmed")];
    const listener = {
      name: "https",
      attachedRoutes: 0,
      supportedKinds: [{ kind: "HTTPRoute" }],
      conditions: accepted,
    };
    const addresses = [{ type: "IPAddress", value: ip }];
    await this.#status(`${gateways}/${name}`, { addresses, conditions: accepted, listeners: [listener] });
  }

  async #route(index: number, gateways: number): Promise<void> {
    const { namespace, name, collection, path } = seededSpot(index);
    const parentRef = { namespace: NAMESPACE, name: `gateway-${index % gateways}` };
    const rules = [{ backendRefs: [{ name, port: 8080 }] }];
    const spec = { parentRefs: [parentRef], hostnames: [`${name}.${namespace}.example.com`], rules };
    await this.#create(collection, { apiVersion: `${GROUP}/v1`, kind: "HTTPRoute", metadata: { name }, spec });
    const parent = { parentRef, controllerName: "example.com/many", conditions: [condition("Accepted")] };
    await this.#status(path, { parents: [parent] });
  }

  async #create(path: string, body: object): Promise<void> {
    await this.#call("POST", path, body, 201);
  }

  async #status(path: string, status: object): Promise<void> {
    await this.#call("PATCH", `${path}/status`, { status }, 200);
  }

  async #call(method: string, path: string, body: object, expected: number): Promise<void> {
    const contentType = method === "PATCH" ? "application/merge-patch+json" : "application/json";
    const answer = await this.#cluster.call({ method, path, body, contentType });
    if (answer.status === expected) return;
    throw new Error(`${method} ${path} answered ${answer.status}: ${JSON.stringify(answer.body)}`);
  }
}

function seededSpot(index: number) {
  const [namespace, name] = [`routes-${Math.floor(index / PER_NAMESPACE)}`, `route-${index}`];
  const collection = `${API}/namespaces/${namespace}/httproutes`;
  return { namespace, name, collection, path: `${collection}/${name}` };
}

function condition(type: string): object {
  const lastTransitionTime = "2026-01-01T00:00:00Z";
  return { type, status: "True", reason: type, message: "", observedGeneration: 1, lastTransitionTime };
}

async function inParallel(from: number, to: number, make: (index: number) => Promise<void>): Promise<void> {
  let next = from;
  const worker = async (): Promise<void> => {
    while (next < to) {
      const index = next++;
      await make(index);
      if ((index + 1) % 5_000 === 0) progress(`${index + 1} of ${to} HTTPRoutes`);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, worker));
}

/** A DNS server on this machine that answers every query with NXDOMAIN (RFC 1035, RCODE 3). */
export async function startDns(): Promise<{ readonly server: string; close(): void }> {
  const socket = createSocket("udp4");
  socket.on("message", (query, { port, address }) => {
    const answer = Buffer.from(query);
    answer[2] = 0x81;
    answer[3] = 0x83;
    socket.send(answer, port, address);
  });
  await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
  return { server: `127.0.0.1:${socket.address().port}`, close: () => socket.close() };
}
