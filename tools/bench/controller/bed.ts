import { type ControlPlane, startControlPlane } from "#test/cluster/controlplane.ts";
import { progress } from "../report.ts";
import { Ingresses } from "./ingresses.ts";
import { MapFollower } from "./map.ts";
import type { Bench } from "./phases.ts";
import { NAMESPACE } from "./process.ts";
import { startDns } from "./routes.ts";

/** The agents' namespace: the default of their configuration. */
export const AGENTS = "switchback-agent";
/** Ports of the target's Service. Without port 80, each Ingress would get an Event that the port is missing. */
export const PORTS = [80, 443].map((port) => ({ name: `port-${port}`, port }));

/** A checkout with its own control plane, Ingresses and a reader of the map. */
export interface Bed extends Bench {
  readonly tree: string;
  readonly program: string;
  readonly cluster: ControlPlane;
  close(): Promise<void>;
}

/** Starts etcd and kube-apiserver and creates the Ingresses. */
export async function openBed(tree: string, program: string, names: number): Promise<Bed> {
  progress("starting etcd and kube-apiserver");
  const cluster = await startControlPlane({
    controllerManager: false,
    // One address family, and enough concurrent requests for the many clients.
    apiServerArgs: ["--service-cluster-ip-range=198.51.100.0/22", "--max-requests-inflight=2000"],
  });
  const dns = await startDns();
  const ingresses = new Ingresses(cluster);
  const map = new MapFollower(cluster, NAMESPACE);
  const close = async () => {
    map.stop();
    dns.close();
    await cluster.stop();
  };
  try {
    for (const name of [NAMESPACE, AGENTS, "ingress-nginx"]) {
      await create(cluster, "/api/v1/namespaces", { metadata: { name } });
    }
    const service = { metadata: { name: "ingress-nginx-controller" }, spec: { ports: PORTS } };
    await create(cluster, "/api/v1/namespaces/ingress-nginx/services", service);
    await create(cluster, `/apis/apps/v1/namespaces/${AGENTS}/daemonsets`, daemonSet());
    await ingresses.seed(names);
    await map.start();
    return {
      tree,
      program,
      cluster,
      dns: dns.server,
      ingresses,
      map,
      nextChange: () => ingresses.nextChange(),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The agents' DaemonSet. The agents watch a real object, but it has no pods. */
function daemonSet(): object {
  const labels = { "app.kubernetes.io/name": "switchback", "app.kubernetes.io/component": "agent" };
  return {
    metadata: { name: "switchback-agent", labels },
    spec: {
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: "agent", image: "switchback:0" }] } },
    },
  };
}

async function create(cluster: ControlPlane, path: string, body: object): Promise<void> {
  const { status, body: answer } = await cluster.call({ method: "POST", path, body });
  if (status !== 201) throw new Error(`POST ${path} answered ${status}: ${JSON.stringify(answer)}`);
}
