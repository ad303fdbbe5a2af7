import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type * as Schema from "../config/schema.ts";
import { type ControlPlane, startControlPlane } from "../test/cluster/controlplane.ts";
import { Ingresses } from "./controller-ingresses.ts";
import { MapFollower } from "./controller-map.ts";
import type { Bench } from "./controller-phases.ts";
import { settingsOf } from "./controller-phases.ts";
import { NAMESPACE, type ServedProcess, serve } from "./controller-process.ts";
import { startDns } from "./controller-routes.ts";
import { cpuOf } from "./process.ts";
import { progress } from "./report.ts";
import { AGENTS, type Front } from "./scale-processes.ts";

/** A checkout with its own control plane, Ingresses, and a reader of the map. */
export interface Bed extends Bench {
  readonly tree: string;
  /** The settings with which its controller follows agents; an earlier release always does. */
  readonly followsAgents: readonly string[];
  readonly program: string;
  readonly cluster: ControlPlane;
  close(): Promise<void>;
}

/** Starts etcd and kube-apiserver and creates the Ingresses. */
export async function openBed(tree: string, program: string, names: number): Promise<Bed> {
  progress("starting etcd and kube-apiserver");
  const cluster = await startControlPlane({
    controllerManager: false,
    // One family, and no limit to what the many clients may have open.
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
    const service = { metadata: { name: "ingress-nginx-controller" }, spec: { ports: [{ port: 443 }] } };
    await create(cluster, "/api/v1/namespaces/ingress-nginx/services", service);
    await create(cluster, `/apis/apps/v1/namespaces/${AGENTS}/daemonsets`, daemonSet());
    await ingresses.seed(names);
    await map.start();
    const { configSchema } = (await import(join(tree, "config", "schema.ts"))) as typeof Schema;
    const followsAgents = "enabled" in configSchema.parse({}).agent ? ["agent.enabled=true"] : [];
    return {
      tree,
      followsAgents,
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

/** The agents' DaemonSet: what they watch of it is real, its pods are not. */
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

/** The DaemonSet's status in the middle of a rollout, as its controller writes it: so many agents, of which some were replaced. */
export async function setAgents({ cluster }: Bed, agents: number, updated: number): Promise<void> {
  const path = `/apis/apps/v1/namespaces/${AGENTS}/daemonsets/switchback-agent/status`;
  const status = {
    currentNumberScheduled: agents,
    desiredNumberScheduled: agents,
    numberMisscheduled: 0,
    numberReady: agents,
    updatedNumberScheduled: updated,
  };
  const answer = await cluster.call({
    method: "PATCH",
    path,
    body: { status },
    contentType: "application/merge-patch+json",
  });
  if (answer.status !== 200) throw new Error(`PATCH ${path} answered ${answer.status}`);
}

async function create(cluster: ControlPlane, path: string, body: object): Promise<void> {
  const { status, body: answer } = await cluster.call({ method: "POST", path, body });
  if (status !== 201) throw new Error(`POST ${path} answered ${status}: ${JSON.stringify(answer)}`);
}

/** Starts the checkout's controller behind a front. */
export async function startController(
  bed: Bed,
  front: Front,
  settings: readonly string[],
  { nodeFlags = [], token = "controller" }: { readonly nodeFlags?: readonly string[]; readonly token?: string } = {},
): Promise<ServedProcess> {
  return await serve(bed.cluster, "controller", [...settingsOf(bed), ...settings], {
    nodeFlags,
    program: { path: bed.program, tree: bed.tree },
    through: { url: front.url, token },
  });
}

const QUIET_SHARE = 0.1;
const QUIET_SECONDS = 4;
/** Bytes a second that are answered at rest: Leases and the like. */
const QUIET_BYTES = 100_000;
const MOST_SECONDS = 240;

/** Waits until a process has used less than a tenth of a core, and little was asked of the front, for some seconds. */
export async function untilQuiet({ pid, ended }: ServedProcess, front: Front): Promise<void> {
  let quiet = 0;
  let before = { cpu: cpuOf(pid), bytes: (await front.activity()).bytes };
  for (let second = 0; second < MOST_SECONDS && quiet < QUIET_SECONDS; second += 1) {
    await Promise.race([delay(1_000), ended]);
    const { pending, bytes } = await front.activity();
    const now = { cpu: cpuOf(pid), bytes };
    const isQuiet = now.cpu - before.cpu < QUIET_SHARE * 1_000 && now.bytes - before.bytes < QUIET_BYTES;
    quiet = isQuiet && pending === 0 ? quiet + 1 : 0;
    before = now;
  }
}
