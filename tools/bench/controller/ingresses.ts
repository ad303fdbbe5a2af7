import type { ControlPlane } from "#test/cluster/controlplane.ts";
import { progress } from "../report.ts";

/** Below the quota of 250 names per source namespace. */
const PER_NAMESPACE = 200;
/** Concurrent writes while seeding. */
const CONCURRENCY = 16;
const PROGRESS_EVERY = 5_000;
/**
 * The namespaces of Ingresses that changes create. They are deleted after each size, so that the number of names
 * stays exact.
 */
const CHANGED_NAMESPACES = Array.from({ length: 16 }, (_, index) => `new-${index}`);

/** An Ingress of the benchmark, and its host. */
interface Spot {
  readonly namespace: string;
  readonly name: string;
  readonly host: string;
}

/** A measured change. `write` resolves when the API server has responded. */
export interface Change {
  /** The name that it adds to the map. */
  readonly host: string;
  readonly write: () => Promise<void>;
}

/** The Ingresses of the benchmark's API server: N seeded ones, and the measured changes. */
export class Ingresses {
  readonly #cluster: ControlPlane;
  #seeded = 0;
  #changes = 0;
  #services = 0;

  constructor(cluster: ControlPlane) {
    this.#cluster = cluster;
  }

  /** Increases the number of Ingresses to `count`, with POST requests. */
  async seed(count: number): Promise<void> {
    if (this.#seeded === 0 && count > 0) for (const name of CHANGED_NAMESPACES) await this.#createNamespace(name);
    const firstNamespace = Math.ceil(this.#seeded / PER_NAMESPACE);
    for (let index = firstNamespace; index * PER_NAMESPACE < count; index++) {
      await this.#createNamespace(`team-${index}`);
    }
    let next = this.#seeded;
    const worker = async (): Promise<void> => {
      while (next < count) {
        const index = next++;
        await this.#create(seededSpot(index));
        if ((index + 1) % PROGRESS_EVERY === 0) progress(`${index + 1} of ${count} Ingresses`);
      }
    };
    await Promise.all(Array.from({ length: CONCURRENCY }, worker));
    this.#seeded = count;
  }

  /** The next change: either a new Ingress or a seeded one with another host, alternately. */
  nextChange(): Change {
    const number = this.#changes++;
    const host = `change-${number}.team-new.example.com`;
    if (number % 2 === 0) {
      const namespace = CHANGED_NAMESPACES[(number / 2) % CHANGED_NAMESPACES.length] ?? "";
      return { host, write: () => this.#create({ namespace, name: `change-${number}`, host }) };
    }
    // A prime step: consecutive changes are in different namespaces, and an Ingress is changed again only much later.
    const spot = { ...seededSpot((number * 7_919) % this.#seeded), host };
    return { host, write: () => this.#changeHost(spot) };
  }

  /** Creates a Service of an application. Like most Services in a cluster, it has no load balancer. */
  async createService(): Promise<void> {
    const number = this.#services++;
    const namespace = CHANGED_NAMESPACES[number % CHANGED_NAMESPACES.length] ?? "";
    const spec = { selector: { app: `app-${number}` }, ports: [{ name: "http", port: 80, targetPort: 8080 }] };
    const path = `/api/v1/namespaces/${namespace}/services`;
    await this.#call("POST", path, { metadata: { name: `app-${number}` }, spec }, 201);
  }

  async removeChanges(): Promise<void> {
    for (const namespace of CHANGED_NAMESPACES) await this.#call("DELETE", pathOf(namespace), undefined, 200);
  }

  /** Average size of an Ingress as the API server returns it, in bytes, including managedFields. */
  async averageBytes(): Promise<number> {
    const { body } = await this.#cluster.call({ path: `${pathOf("team-0")}?limit=100` });
    const { items } = body as { items: object[] };
    return Math.round(JSON.stringify(items).length / items.length);
  }

  async #createNamespace(name: string): Promise<void> {
    await this.#call("POST", "/api/v1/namespaces", { metadata: { name } }, 201);
  }

  async #create(spot: Spot): Promise<void> {
    await this.#call("POST", `${pathOf(spot.namespace)}?fieldManager=kubectl-client-side-apply`, ingress(spot), 201);
  }

  async #changeHost({ namespace, name, host }: Spot): Promise<void> {
    const path = `${pathOf(namespace)}/${name}?fieldManager=kubectl-client-side-apply`;
    await this.#call("PATCH", path, { spec: specOf(name, host) }, 200);
  }

  async #call(method: string, path: string, body: unknown, expected: number): Promise<void> {
    const contentType = method === "PATCH" ? "application/merge-patch+json" : "application/json";
    const answer = await this.#cluster.call({ method, path, body, contentType });
    if (answer.status !== expected) {
      throw new Error(`${method} ${path} answered ${answer.status}: ${JSON.stringify(answer.body)}`);
    }
  }
}

function pathOf(namespace: string): string {
  return `/apis/networking.k8s.io/v1/namespaces/${namespace}/ingresses`;
}

function seededSpot(index: number): Spot {
  const team = Math.floor(index / PER_NAMESPACE);
  return { namespace: `team-${team}`, name: `app-${index}`, host: `app-${index}.team-${team}.example.com` };
}

function specOf(name: string, host: string): object {
  const backend = { service: { name, port: { number: 8080 } } };
  return {
    ingressClassName: "nginx",
    rules: [{ host, http: { paths: [{ path: "/", pathType: "Prefix", backend }] } }],
    tls: [{ hosts: [host], secretName: `${name}-tls` }],
  };
}

/**
 * An Ingress like typical ones: kubectl wrote it with its annotation, and it has a certificate and a few settings of
 * the ingress controller.
 */
function ingress({ namespace, name, host }: Spot): object {
  const labels = {
    "app.kubernetes.io/name": name,
    "app.kubernetes.io/part-of": "shop",
    "app.kubernetes.io/managed-by": "Helm",
  };
  const annotations = {
    "cert-manager.io/cluster-issuer": "letsencrypt",
    "nginx.ingress.kubernetes.io/proxy-body-size": "8m",
  };
  const head = { apiVersion: "networking.k8s.io/v1", kind: "Ingress" };
  const spec = specOf(name, host);
  const applied = JSON.stringify({ ...head, metadata: { name, namespace, labels, annotations }, spec });
  const all = { ...annotations, "kubectl.kubernetes.io/last-applied-configuration": applied };
  return { ...head, metadata: { name, namespace, labels, annotations: all }, spec };
}
