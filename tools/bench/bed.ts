import { mkdir, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bundleProduct } from "#manifests/bundle.ts";
import { type ControlPlane, startControlPlane } from "#test/cluster/controlplane.ts";
import { Processes } from "#test/cluster/processes.ts";
import { type DnsServer, NO_NAME, startDnsServer } from "#test/fakes/dns-server.ts";
import { cpuOf } from "./process.ts";
import { progress } from "./report.ts";
import { NAMESPACE, type Place, type Served, type ServeOptions, serve } from "./serve.ts";

const CONCURRENCY = 16;
/** Below the quota of 250 names per source namespace. */
const PER_NAMESPACE = 200;
/** The namespaces of the Ingresses and Services that changes create. */
const NEW_NAMESPACES = 16;
/** Without port 80, each Ingress would get an Event that the port is missing. */
const PORTS = [80, 443];
const TARGET = { namespace: "ingress-nginx", name: "ingress-nginx-controller" };
const CHANGE_EVERY_MS = 1_000;
/** Longer than a name of 50,000 takes. */
const LONGEST_WAIT_MS = 120_000;

/** A measured change. `write` resolves when the API server has responded. */
export interface Change {
  /** The name that it adds to the map. */
  readonly host: string;
  readonly write: () => Promise<void>;
}

/** Objects that give names, and changes of them. */
export interface Names {
  /** Creates objects with `count` names. */
  seed(count: number): Promise<void>;
  next(): Change;
}

/** A real etcd and kube-apiserver, and a place for Switchback's processes. */
export class Bed implements Place {
  readonly cluster: ControlPlane;
  readonly folder: string;
  readonly processes: Processes;
  readonly #dns: DnsServer;
  readonly #served: Served[] = [];

  private constructor(cluster: ControlPlane, folder: string, processes: Processes, dns: DnsServer) {
    this.cluster = cluster;
    this.folder = folder;
    this.processes = processes;
    this.#dns = dns;
  }

  static async open(): Promise<Bed> {
    progress("starting etcd and kube-apiserver");
    const cluster = await startControlPlane({
      controllerManager: false,
      apiServerArgs: [
        // With one address family, a name is one line, as in most clusters. The range has room for 1,000 Services.
        "--service-cluster-ip-range=198.51.100.0/22",
        // Enough for all clients of the bench, and pods without kube-controller-manager.
        "--max-requests-inflight=2000",
        "--disable-admission-plugins=ServiceAccount",
      ],
    });
    const folder = await mkdtemp(join(tmpdir(), "switchback-bench-"));
    await mkdir(join(folder, "logs"));
    await bundleProduct(folder);
    const dns = await startDnsServer(() => NO_NAME);
    const bed = new Bed(cluster, folder, new Processes(folder, join(folder, "logs")), dns);
    for (const name of [NAMESPACE, TARGET.namespace]) await bed.createNamespace(name);
    const ports = PORTS.map((port) => ({ name: `port-${port}`, port }));
    const path = `/api/v1/namespaces/${TARGET.namespace}/services`;
    await bed.create(path, { metadata: { name: TARGET.name }, spec: { ports } });
    return bed;
  }

  /**
   * Names are verified against a DNS server of this machine, so that no other server gets queries for them. The target
   * needs no proxy that detects the protocol.
   */
  get config() {
    const ports = PORTS.map((port) => ({ port, protocol: "v1" }));
    const targets = [{ name: "ingress-nginx", upstream: { service: TARGET }, classes: ["nginx"], ports }];
    return { policy: { dnsServers: [this.#dns.address] }, targets };
  }

  async serve(component: Parameters<typeof serve>[1], options: Partial<ServeOptions> = {}): Promise<Served> {
    const served = await serve(this, component, { config: this.config, ...options });
    this.#served.push(served);
    return served;
  }

  async createNamespace(name: string, labels: Readonly<Record<string, string>> = {}): Promise<void> {
    await this.create("/api/v1/namespaces", { metadata: { name, labels } });
  }

  async create(path: string, body: object): Promise<void> {
    const { status, body: answer } = await this.cluster.call({ method: "POST", path, body });
    if (status !== 201) throw new Error(`POST ${path} answered ${status}: ${JSON.stringify(answer)}`);
  }

  async patch(path: string, body: object): Promise<void> {
    const contentType = "application/merge-patch+json";
    const { status, body: answer } = await this.cluster.call({ method: "PATCH", path, body, contentType });
    if (status !== 200) throw new Error(`PATCH ${path} answered ${status}: ${JSON.stringify(answer)}`);
  }

  async close(): Promise<void> {
    for (const served of this.#served.toReversed()) await served.stop();
    this.#dns.close();
    await this.processes.close(false);
    await this.cluster.stop();
  }
}

/** Runs `make` for 0 to `count - 1`, several at a time. */
export async function each(count: number, make: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) await make(next++);
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, worker));
}

/** Creates the namespaces of `count` objects with names, and returns the namespace of an object. */
export async function namespacesFor(bed: Bed, prefix: string, count: number): Promise<(index: number) => string> {
  const of = (index: number) => `${prefix}-${Math.floor(index / PER_NAMESPACE)}`;
  await each(Math.ceil(count / PER_NAMESPACE), (index) => bed.createNamespace(`${prefix}-${index}`));
  return of;
}

/** Waits for `promise`. Throws with the end of the process's log if that takes too long. */
export async function within<T>(promise: Promise<T>, what: string, { process }: Served): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const fail = async () => reject(new Error(`${what}: not within ${LONGEST_WAIT_MS} ms\n${await process.logTail()}`));
  const timer = setTimeout(() => void fail(), LONGEST_WAIT_MS);
  return await Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** CPU time of a change in milliseconds, above that at rest: for the Lease and timers. */
export async function cpuOfEach(controller: Served, count: number, change: () => Promise<void>): Promise<number> {
  const measure = async (work: () => Promise<void>): Promise<number> => {
    const before = cpuOf(controller.pid);
    await everySecond(controller, count, work);
    return cpuOf(controller.pid) - before;
  };
  const idle = await measure(async () => {});
  return ((await measure(change)) - idle) / count;
}

/** A slower change skips seconds, because concurrent changes are not measured here. */
export async function everySecond(controller: Served, count: number, change: () => Promise<void>): Promise<void> {
  const start = performance.now();
  for (let number = 0; number < count; number += 1) {
    await change();
    const due = start + Math.ceil((performance.now() - start) / CHANGE_EVERY_MS) * CHANGE_EVERY_MS;
    await controller.rest(Math.max(0, due - performance.now()));
  }
}

/** Ingresses like typical ones: 2 KB each, written by kubectl, with a certificate and a few settings. */
export class Ingresses implements Names {
  readonly #bed: Bed;
  #namespaceOf: (index: number) => string = () => "";
  #seeded = 0;
  #changes = 0;
  #services = 0;

  constructor(bed: Bed) {
    this.#bed = bed;
  }

  async seed(count: number): Promise<void> {
    await each(NEW_NAMESPACES, (index) => this.#bed.createNamespace(`new-${index}`));
    this.#namespaceOf = await namespacesFor(this.#bed, "team", count);
    await each(count, (index) => {
      const namespace = this.#namespaceOf(index);
      return this.#create(namespace, `app-${index}`, `app-${index}.${namespace}.example.com`);
    });
    this.#seeded = count;
  }

  /** In turns a new Ingress, and a seeded one with another host. */
  next(): Change {
    const number = this.#changes++;
    const host = `change-${number}.team-new.example.com`;
    if (number % 2 === 0) {
      const namespace = `new-${(number / 2) % NEW_NAMESPACES}`;
      return { host, write: () => this.#create(namespace, `change-${number}`, host) };
    }
    // A prime step: consecutive changes are in different namespaces, and an Ingress is changed again only much later.
    const index = (number * 7_919) % this.#seeded;
    const name = `app-${index}`;
    const path = `${pathOf(this.#namespaceOf(index))}/${name}?fieldManager=kubectl-client-side-apply`;
    return { host, write: () => this.#bed.patch(path, { spec: specOf(name, host) }) };
  }

  /** Creates a Service of an application. Like most Services in a cluster, it has no load balancer. */
  async createService(): Promise<void> {
    const number = this.#services++;
    const name = `app-${number}`;
    const spec = { selector: { app: name }, ports: [{ name: "http", port: 80, targetPort: 8080 }] };
    await this.#bed.create(`/api/v1/namespaces/new-${number % NEW_NAMESPACES}/services`, { metadata: { name }, spec });
  }

  async #create(namespace: string, name: string, host: string): Promise<void> {
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
    const path = `${pathOf(namespace)}?fieldManager=kubectl-client-side-apply`;
    await this.#bed.create(path, { ...head, metadata: { name, labels, annotations: all }, spec });
  }
}

function pathOf(namespace: string): string {
  return `/apis/networking.k8s.io/v1/namespaces/${namespace}/ingresses`;
}

function specOf(name: string, host: string): object {
  const backend = { service: { name, port: { number: 8080 } } };
  return {
    ingressClassName: "nginx",
    rules: [{ host, http: { paths: [{ path: "/", pathType: "Prefix", backend }] } }],
    tls: [{ hosts: [host], secretName: `${name}-tls` }],
  };
}
