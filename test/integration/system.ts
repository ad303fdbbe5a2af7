import assert from "node:assert/strict";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { STATUS_KEY_HEADER, STATUS_PATH } from "#lib/documents/status-page.ts";
import { type ControlPlane, startControlPlane } from "../cluster/controlplane.ts";
import { NODE } from "../cluster/kubelet.ts";
import { type MemoryGroup, memoryGroup } from "../cluster/memory-group.ts";
import { freePorts } from "../cluster/ports.ts";
import { type Component, Processes, until as untilRuns } from "../cluster/processes.ts";
import { AuditLog, credentialOf } from "./audit.ts";
import { containerOf, Installation } from "./installation.ts";
import { INGRESS_CONTROLLER, type Status } from "./objects.ts";
import type { ChartValues, ComponentName, Profile, Replica, SystemOptions } from "./system-options.ts";

// Switchback as a user installs it, on a real API server. Helm installs the chart. Controllers and webhooks are
// processes with the rights of their ServiceAccounts and the configuration that the chart rendered. Only the nodes
// are missing.

const TOP = fileURLToPath(new URL("../..", import.meta.url));
export const NAMESPACE = "switchback-system";
/** The agents' namespace. */
export const AGENTS = "switchback-agent";
/** The chart's `config.webhook.healthPort`. */
const HEALTH_PORT = 8081;

/**
 * A loopback address of this process. Listen ports depend only on the target's name, so proxies of several test
 * processes would collide on 127.0.0.1.
 */
const OWN_LOOPBACK = `127.${64 + ((process.pid >> 16) & 63)}.${(process.pid >> 8) & 255}.${process.pid & 255}`;

/** A cluster with Switchback in it. */
export class System extends Installation {
  readonly controllers: Replica[] = [];
  readonly webhooks: Replica[] = [];
  readonly proxies: Replica[] = [];
  readonly agents: Replica[] = [];
  readonly resolvers: Replica[] = [];
  readonly audit: AuditLog;
  readonly #processes: Processes;
  #started = 0;
  /** The last key that was read, because tests read the status while the API server is down. */
  #statusKey = "";

  #profile: Profile = "default";
  readonly #isConfined: boolean;
  readonly #groups: MemoryGroup[] = [];

  constructor(cluster: ControlPlane, folder: string, { confined: isConfined = false }: SystemOptions = {}) {
    super(cluster, folder, NAMESPACE);
    this.audit = new AuditLog(folder);
    this.#isConfined = isConfined;
    this.#processes = new Processes(folder, folder);
  }

  /** Installs or upgrades the chart. */
  async install(values: ChartValues = {}): Promise<void> {
    const chart = join(TOP, "manifests/chart");
    const args = ["upgrade", "--install", "switchback", chart, "-n", NAMESPACE, "--create-namespace", "--values", "-"];
    // No DNS server knows the tests' names, and nothing answers behind most of their Services.
    const given = JSON.stringify(values);
    for (const unasked of ["policy.verifyDns=off", "discovery.detect=false"]) {
      const [setting = ""] = unasked.split(/[.=]/).slice(1);
      if (!given.includes(setting)) args.push("--set", `config.${unasked}`);
    }
    const { code, stderr } = await this.cluster.tool("helm", args, { input: JSON.stringify(values) });
    assert.equal(code, 0, stderr);
    this.#profile = values.profile ?? "default";
  }

  /** Starts one more replica of a component. */
  async start(component: "controller" | "webhook"): Promise<Replica> {
    const ports = component === "controller" ? ["controller.port=0"] : ["webhook.port=0", "webhook.healthPort=0"];
    const { name, child, token } = await this.#run(component, [...ports, "address=127.0.0.1"]);
    const said = await listening(child, join(this.folder, `${name}.log`), component);
    const replica = this.#replica(name, child, said, token);
    (component === "controller" ? this.controllers : this.webhooks).push(replica);
    this.routeWebhooks();
    return replica;
  }

  /** Starts the only process of the profile `small`. Returns its controller, its webhook and its proxy. */
  async startAll(address = OWN_LOOPBACK): Promise<Record<"controller" | "webhook" | "proxy", Replica>> {
    const [status = 0, admissions = 0, relay = 0] = await freePorts(3);
    const { name, child, token } = await this.#run("all", [
      ...["address=127.0.0.1", `controller.port=${status}`, "webhook.port=0", `webhook.healthPort=${admissions}`],
      ...[`proxy.address=${address}`, `proxy.healthPort=${relay}`],
    ]);
    const said = await listening(child, join(this.folder, `${name}.log`), "webhook");
    const controller = this.#replica(name, child, { port: status, healthPort: status }, token);
    const webhook = this.#replica(name, child, said, token);
    const proxy = this.#replica(name, child, { port: relay, healthPort: relay }, token, address);
    this.controllers.push(controller);
    this.webhooks.push(webhook);
    this.proxies.push(proxy);
    this.routeWebhooks();
    await until(`${name} to be ready`, async () => (await controller.page("/readyz")).status === 200);
    return { controller, webhook, proxy };
  }

  /** Starts a proxy, which binds its listeners on a loopback address. `port` of the result is its health port. */
  async startProxy(address = OWN_LOOPBACK): Promise<Replica> {
    return await this.#startReady("proxy", "proxy", this.proxies, [], address);
  }

  /** Starts the agent of the only node, for hosts files below `kubeletRoot`. */
  async startAgent(kubeletRoot: string): Promise<Replica> {
    return await this.#startReady("agent", "agent", this.agents, [`kubeletRoot=${kubeletRoot}`]);
  }

  /** Starts the sidecar of a resolver, which writes its files into `directory`. */
  async startDns(directory: string): Promise<Replica> {
    return await this.#startReady("dns", "podDns", this.resolvers, [`directory=${directory}`]);
  }

  /** Starts a component with the settings of its section, and waits until its health server says that it is ready. */
  async #startReady(
    component: ComponentName,
    section: string,
    replicas: Replica[],
    settings: readonly string[],
    address = "127.0.0.1",
  ): Promise<Replica> {
    const [port = 0] = await freePorts(1);
    const own = [`healthPort=${port}`, ...settings].map((setting) => `${section}.${setting}`);
    const bound = component === "proxy" ? "proxy.address" : "address";
    const { name, child, token } = await this.#run(component, [`${bound}=${address}`, ...own]);
    const replica = this.#replica(name, child, { port, healthPort: port }, token, address);
    replicas.push(replica);
    await until(`${name} to be ready`, async () => (await replica.page("/readyz")).status === 200);
    return replica;
  }

  #replica(name: string, child: Component, ports: Ports, token: string, address = "127.0.0.1"): Replica {
    const page: Replica["page"] = async (path, headers = {}) => {
      const response = await fetch(`http://${address}:${ports.healthPort}${path}`, { headers });
      return { status: response.status, text: await response.text() };
    };
    const status = async (): Promise<Status> => {
      let text = "";
      await until(`the status of ${name}`, async () => {
        const answer = await page(STATUS_PATH, { [STATUS_KEY_HEADER]: this.#statusKey });
        if (answer.status === 403) this.#statusKey = await this.readStatusKey();
        text = answer.text;
        return answer.status === 200;
      });
      return JSON.parse(text) as Status;
    };
    const log = () => readFile(join(this.folder, `${name}.log`), "utf8");
    return { process: child, address, ...ports, credential: credentialOf(token), page, log, status };
  }

  /** Starts a component's program as its pod would. */
  async #run(component: ComponentName, settings: readonly string[]) {
    this.#started += 1;
    const name = `switchback-${component}-${this.#started}`;
    const namespace = component === "agent" ? AGENTS : NAMESPACE;
    const config = join(this.folder, `${name}.yaml`);
    await writeFile(config, await this.#configuration(component));
    // An agent may write only the Lease of the node that its token names.
    const node = component === "agent" ? NODE : undefined;
    const token = await this.cluster.tokenFor(`${namespace}/switchback-${component}`, node);
    const kubeconfig = await this.cluster.kubeconfigFor({ token });
    const nodeEnv = node === undefined ? {} : { SWITCHBACK_AGENT_NODE: node };
    const env = { ...this.cluster.podNetwork, KUBECONFIG: kubeconfig, POD_NAME: name, ...nodeEnv };
    const sets = settings.flatMap((set) => ["--set", set]);
    const program = [join(TOP, "cli/main.ts"), component, "--config", config, ...sets];
    const confined = await this.#confine(component, name, program);
    const [command = "", ...args] = confined.command;
    return { name, token, child: this.#processes.start(name, command, args, { ...confined.env, ...env }) };
  }

  /** The configuration that the pods of a component mount. */
  async #configuration(component: ComponentName): Promise<string> {
    const [namespace, ...workload] = workloadOf(component);
    const get = ["-n", namespace, "get"];
    const mounted = 'jsonpath={.spec.template.spec.volumes[?(@.name=="config")].configMap.name}';
    const name = await this.kubectl(...get, ...workload, "-o", mounted);
    return await this.kubectl(...get, "cm", name, "-o", "jsonpath={.data.config\\.yaml}");
  }

  /** The component whose pods and account run the given component: `all` in the profile `small`. */
  process(component: "controller" | "webhook" | "proxy"): ComponentName {
    return this.#profile === "small" ? "all" : component;
  }

  /**
   * The command and the environment of a process. If confined, they are those of the chart's pod, within its memory
   * limit.
   */
  async #confine(component: ComponentName, name: string, program: readonly string[]) {
    if (!this.#isConfined) return { command: [process.execPath, ...program], env: {} };
    const isPartOfAll = this.#profile === "small" && component !== "agent" && component !== "dns";
    const [namespace, ...names] = workloadOf(isPartOfAll ? "all" : component);
    const workload = await this.json("-n", namespace, "get", ...names);
    const { flags, env, memoryLimit } = containerOf(workload);
    const group = memoryGroup(name, memoryLimit);
    if (group !== undefined) this.#groups.push(group);
    return { command: [...(group?.command ?? []), process.execPath, ...flags, ...program], env };
  }

  /** Ends a replica. The API server calls only the others from then on. */
  async end(replica: Replica, signal: "SIGTERM" | "SIGKILL" = "SIGKILL"): Promise<void> {
    for (const list of [this.controllers, this.webhooks, this.proxies, this.agents]) {
      const place = list.indexOf(replica);
      if (place >= 0) list.splice(place, 1);
    }
    this.routeWebhooks();
    await replica.process.stop(signal);
  }

  /** Waits until exactly one controller says that it leads, and returns it. */
  async leader(): Promise<Replica> {
    let leaders: Replica[] = [];
    await until("one leader", async () => {
      const all = await Promise.all(this.controllers.map(async (it) => ({ it, status: await it.status() })));
      leaders = all.filter(({ status }) => status.leader).map(({ it }) => it);
      return leaders.length === 1;
    });
    assert.ok(leaders[0]);
    return leaders[0];
  }

  /** Does kube-proxy's part for the webhook's Service. */
  routeWebhooks(): void {
    this.cluster.routeService(
      `${NAMESPACE}/switchback-webhook`,
      443,
      this.webhooks.map(({ port }) => port),
    );
  }

  /**
   * Makes the pods of the webhook's Deployment stand for the replicas here: ready, with addresses that lead to their
   * health servers. Before that, the cluster sees no ready replica, and nothing is restarted.
   */
  async showWebhooks(): Promise<void> {
    const pods = await this.#podsOf("webhook");
    for (const [index, { healthPort }] of this.webhooks.entries())
      await this.cluster.runPod(pods[index] ?? "", `198.18.0.${index + 1}`, { [HEALTH_PORT]: healthPort });
    const slices = ["-n", NAMESPACE, "get", "endpointslices", "-l", "kubernetes.io/service-name=switchback-webhook"];
    const ready = "jsonpath={.items[*].endpoints[?(@.conditions.ready==true)].addresses[0]}";
    const count = async () => (await this.kubectl(...slices, "-o", ready)).split(" ").filter(Boolean).length;
    await until("the webhook's endpoints", async () => (await count()) === this.webhooks.length);
  }

  /** Makes the leader answer behind the controller's Service. The API server's proxy finds it through a ready pod. */
  async showController(): Promise<void> {
    const [pod = ""] = await this.#podsOf("controller");
    const { healthPort } = await this.leader();
    await this.cluster.runPod(pod, "203.0.113.250", { 8080: healthPort });
  }

  /** The pods of a component's Deployment as `namespace/name`, once there are some. The newest is first. */
  async #podsOf(component: "controller" | "webhook"): Promise<string[]> {
    const label = `app.kubernetes.io/component=${this.process(component)}`;
    const select = ["-n", NAMESPACE, "get", "pods", "-l", label, "--sort-by=.metadata.creationTimestamp", "-o", "name"];
    await until(`the pods of the ${component}`, async () => (await this.kubectl(...select)).includes("pod/"));
    const names = (await this.kubectl(...select)).trim().split("\n").toReversed();
    return names.map((name) => name.replace("pod", NAMESPACE));
  }

  /** Waits until any object that is created next is younger than this one. Ages are known to the second. */
  async aged(namespace: string, object: string): Promise<void> {
    const args = ["-n", namespace, "get", object];
    const { metadata } = await this.json<{ metadata: { creationTimestamp: string } }>(...args);
    await until("another second", () => Date.now() >= Date.parse(metadata.creationTimestamp) + 1_000);
  }

  /**
   * Waits until the API server can call the webhook, and every replica uses the published map with all of `names` in
   * it.
   */
  async ready(names: readonly string[] = []): Promise<void> {
    await until(`the webhooks to be ready with ${names.join(", ") || "a map"}`, async () => {
      const { revision } = await this.map();
      if (!(await this.publishedNames()).isSupersetOf(new Set(names))) return false;
      const pages = await Promise.all(this.webhooks.map((webhook) => webhook.page("/loaded")));
      const probes = await Promise.all(this.webhooks.map((webhook) => webhook.page("/readyz")));
      const loaded = pages.every(
        ({ text }) => (JSON.parse(text || "{}") as { revision?: string }).revision === revision,
      );
      return (
        loaded &&
        probes.every(({ status }) => status === 200) &&
        (await this.bundles()).every((bundle) => bundle !== "")
      );
    });
  }

  async stop(): Promise<void> {
    const replicas = [...this.controllers, ...this.webhooks, ...this.proxies, ...this.agents, ...this.resolvers];
    const children = new Set(replicas.map(({ process: child }) => child));
    await Promise.all([...children].map((child) => child.stop("SIGKILL")));
    for (const group of this.#groups) group.remove();
    await this.#processes.close(false);
    await this.cluster.stop();
  }
}

/** Namespace, kind and name of the workload that runs a component. */
function workloadOf(component: ComponentName): [namespace: string, kind: string, name: string] {
  if (component === "agent") return [AGENTS, "daemonset", "switchback-agent"];
  return [NAMESPACE, "deployment", component === "dns" ? "switchback-dns-a" : `switchback-${component}`];
}

/** Starts a control plane with the chart installed and replicas running. */
export async function startSystem(options: SystemOptions = {}): Promise<System> {
  const folder = await mkdtemp(join(tmpdir(), "switchback-system-"));
  const { controlPlane = {} } = options;
  const auditArgs = options.audit ? await AuditLog.prepare(folder, NAMESPACE) : [];
  const apiServerArgs = [...(controlPlane.apiServerArgs ?? []), ...auditArgs];
  const cluster = await startControlPlane({ ...controlPlane, apiServerArgs });
  const system = new System(cluster, folder, options);
  try {
    if (options.before !== undefined) await system.apply(options.before);
    await system.install(options.values);
    await system.apply(INGRESS_CONTROLLER);
    if (options.values?.profile === "small") await system.startAll();
    else {
      for (let count = options.controllers ?? 1; count > 0; count -= 1) await system.start("controller");
      for (let count = options.webhooks ?? 1; count > 0; count -= 1) await system.start("webhook");
    }
    if (options.controllers !== 0) await system.ready();
  } catch (error) {
    await system.stop();
    throw error;
  }
  return system;
}

/** A sum over the samples of a counter whose labels contain all of `labels`. */
export function sumOf(metrics: string, name: string, labels: readonly string[] = []): number {
  return metrics
    .split("\n")
    .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
    .filter((line) => labels.every((label) => line.includes(label)))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
}

/**
 * A metric of the first webhook, as it is now. The page rests after it was rendered: this waits for the next rendering,
 * which counts CPU time.
 */
export async function webhookMetric({ webhooks: [webhook] }: System, name: string): Promise<number> {
  const read = async () => ((await webhook?.page("/metrics")) ?? assert.fail("no webhook")).text;
  const cpu = (text: string) => sumOf(text, "process_cpu_seconds_total");
  const old = await read();
  let text = await read();
  while (cpu(text) === cpu(old)) text = await read();
  return sumOf(text, name);
}

/** Waits until a condition is true. An error that it throws counts as "not yet". */
export async function until(
  what: string,
  condition: () => Promise<boolean> | boolean,
  timeoutMs = 30_000,
): Promise<void> {
  await untilRuns(what, timeoutMs / 1000, async () => ((await condition()) ? undefined : "not yet"));
}

interface Ports {
  readonly port: number;
  readonly healthPort: number;
}

/** Waits until a component has said which ports it listens on. */
async function listening(child: Component, logFile: string, component: ComponentName): Promise<Ports> {
  const wanted = [`"component":"${component}"`, '"msg":"listening"'];
  const isWanted = (line: string) => wanted.every((part) => line.includes(part));
  let said = "";
  const missing = async () => {
    said = (await readFile(logFile, "utf8")).split("\n").find(isWanted) ?? "";
    return said === "" ? "no such line" : undefined;
  };
  await untilRuns(`${child.name} to listen`, 30, missing, child);
  const { port, healthPort = port } = JSON.parse(said) as { port: number; healthPort?: number };
  return { port, healthPort };
}
