import type { TestContext } from "node:test";
import { runController } from "#controller/run.ts";
import type { StatusDocument } from "#controller/status.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { STATUS_KEY_HEADER, STATUS_PATH, type StatusSecret, statusKeyIn } from "#lib/documents/status-page.ts";
import { hostsText, OBJECTS, publishedIn } from "../published.ts";
import { LineLog } from "./clock.ts";
import { until } from "./kube-api.ts";
import { MemoryKube } from "./memory-kube.ts";
import type { KubeObject } from "./memory-objects.ts";

export const OWN = "/api/v1/namespaces/switchback-system";
export const INGRESSES = "/apis/networking.k8s.io/v1/ingresses";
export const LEASE = `/apis/coordination.k8s.io/v1/namespaces/switchback-system/leases/${OBJECTS.lease}`;
export const NAME = "shop.example.com";

/** The page behind `/status`. */
interface StatusPage extends StatusDocument {
  readonly certificates?: { readonly mode: string };
  readonly running?: object;
}

const BALANCER = { ingress: [{ ip: "192.0.2.80", ipMode: "VIP" }] };

/**
 * Writes an Ingress in the namespace `shop`. Its status says that a controller has accepted it, unless `status`
 * replaces that.
 */
export function putIngress(kube: MemoryKube, hosts: readonly string[], status: object = { loadBalancer: BALANCER }) {
  const metadata = { creationTimestamp: "2026-01-01T00:00:00Z" };
  const spec = { ingressClassName: "nginx", rules: hosts.map((host) => ({ host })) };
  kube.put("/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web", { metadata, spec, status });
}

/** Writes the ingress controller's Service, with a load balancer. */
function putUpstream(kube: MemoryKube): void {
  kube.put("/api/v1/namespaces/ingress-nginx/services/ingress-nginx-controller", {
    metadata: { creationTimestamp: "2026-01-01T00:00:00Z" },
    spec: { type: "LoadBalancer", clusterIPs: ["198.51.100.80"], ports: [{ port: 443, protocol: "TCP" }] },
    status: { loadBalancer: BALANCER },
  });
}

interface Setting {
  readonly config?: Readonly<Record<string, unknown>>;
  readonly clusterDomain?: string | undefined;
  /** Adds objects before the start. Default: an Ingress. */
  readonly prepare?: (kube: MemoryKube) => void;
  /** Whether the cluster has the ingress controller's Service. Default: yes. */
  readonly upstream?: boolean;
  /** The cluster of an earlier controller. Default: a new cluster. */
  readonly kube?: MemoryKube;
}

/** A controller on a cluster in memory, with one source. It stops when the test ends. */
export async function controllerRig(t: TestContext, setting: Setting = {}) {
  const { config = {}, clusterDomain = "cluster.local" } = setting;
  const kube = setting.kube ?? new MemoryKube();
  const prepare = setting.prepare ?? ((api: MemoryKube) => putIngress(api, [NAME]));
  if (setting.upstream ?? true) putUpstream(kube);
  prepare(kube);
  const log = new LineLog();
  const parsed = parseConfig({
    certs: { mode: "cert-manager" },
    ...config,
    policy: { verifyDns: "off", ...(config.policy as object) },
    // No proxy runs that could detect headers.
    discovery: { detect: false, ...(config.discovery as object) },
    sources: { gateway: { enabled: false }, ...(config.sources as object) },
    address: "127.0.0.1",
    controller: { port: 0, leaseSeconds: 5, ...(config.controller as object) },
  });
  const controller = await runController(parsed, {
    client: kube.client,
    identity: "pod-0",
    clusterDomain,
    log,
    now: Date.now,
    headerTimes: { pollMs: 50, changeMs: 0 },
  });
  let stopping: Promise<void> | undefined;
  const stop = () => {
    stopping ??= controller.stop();
    return stopping;
  };
  t.after(stop);
  const page = async (path: string, headers: Record<string, string> = {}) => {
    const response = await fetch(`http://127.0.0.1:${controller.healthPort}${path}`, { headers });
    return { status: response.status, text: await response.text() };
  };
  const status = async () => {
    // A key appears soon after the start, and soon after somebody has deleted it.
    for (;;) {
      const { status: code, text } = await page(STATUS_PATH, { [STATUS_KEY_HEADER]: statusKey(kube) ?? "" });
      if (code !== 403) return JSON.parse(text) as StatusPage;
    }
  };
  return { kube, log, page, status, stop, port: controller.healthPort };
}

/** The key of `/status`, as a user with the right to read it gets it. */
export function statusKey(kube: MemoryKube): string | undefined {
  return statusKeyIn((kube.at(`${OWN}/secrets/${OBJECTS.statusKey}`) ?? {}) as StatusSecret);
}

export type ControllerRig = Awaited<ReturnType<typeof controllerRig>>;

/** The ConfigMaps of Switchback's namespace. */
export function configMaps(kube: MemoryKube): readonly KubeObject[] {
  return kube.paths(`${OWN}/configmaps`).flatMap((path) => kube.at(path) ?? []);
}

/** The published map in the form of hosts(5). */
export function lines({ kube }: Pick<ControllerRig, "kube">): string {
  return hostsText(configMaps(kube));
}

/** Whether the map is complete. It may be empty. */
export function isPublished({ kube }: Pick<ControllerRig, "kube">): boolean {
  return publishedIn(configMaps(kube)).revision !== undefined;
}

/** Waits until the controller has published this name. */
export async function untilPublished(rig: Pick<ControllerRig, "kube">, name = NAME): Promise<void> {
  await until(() => isPublished(rig) && lines(rig).includes(name), name);
}
