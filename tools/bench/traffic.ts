import { createServer, connect as dial, type Server } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { binary } from "#test/cluster/binaries.ts";
import { type ControlPlane, startControlPlane } from "#test/cluster/controlplane.ts";
import { requirePrograms, requireRoot } from "#test/cluster/node/requirements.ts";
import { run as command } from "#test/cluster/node/run.ts";
import { type Component, Processes } from "#test/cluster/processes.ts";
import { progressLines } from "#test/cluster/progress.ts";
import { createReporter, progress, type Reporter } from "./report.ts";

// `npm run bench -- traffic`: measures which proxy gets the connections of each node, by `proxy.trafficDistribution`.
// There are two nodes. Each is a network namespace with a real kube-proxy, which chooses the proxy by the hints that
// kube-controller-manager writes. Listeners that return their place replace the proxies. Needs Linux and root.

const SERVICE_IP = "198.51.100.80";
const SERVICE_RANGE = "198.51.100.0/24";
const POD_RANGE = "203.0.113.0/24";
const PORT = 15_000;
const NODES = [
  { name: "node-a", zone: "zone-a", address: "192.0.2.11", pod: "203.0.113.11" },
  { name: "node-b", zone: "zone-b", address: "192.0.2.12", pod: "203.0.113.12" },
] as const;
type Node = (typeof NODES)[number];
const SETTINGS = [undefined, "PreferSameZone", "PreferSameNode"] as const;
const WAIT_MS = 60_000;
const PODS = "/api/v1/namespaces/default/pods";
const FRONT = "/api/v1/namespaces/default/services/front";

/** Sends the name of its node on each connection. */
const LISTENER = `require("node:net")
  .createServer((socket) => { socket.on("error", () => {}); socket.end(process.argv[1]); })
  .listen(${PORT}, process.argv[2])`;
/** Connects this many times, one after the other. Prints the server that answered, or `failed`, one per line. */
const CALLER = `const { connect } = require("node:net");
const call = () => new Promise((resolve) => {
  let text = "";
  const socket = connect(80, "${SERVICE_IP}").setTimeout(2000, () => socket.destroy());
  socket.on("data", (data) => { text += data; }).on("error", () => {}).on("close", () => resolve(text || "failed"));
});
(async () => { for (let left = Number(process.argv[1]); left > 0; left -= 1) console.log(await call()); })();`;
/** Forwards to the API server, which listens on the machine's own loopback. */
const WAY = `const { createServer, connect } = require("node:net");
createServer((socket) => { const other = connect(process.argv[1]); socket.pipe(other).pipe(socket);
  for (const side of [socket, other]) side.on("error", () => { socket.destroy(); other.destroy(); }); })
  .listen(Number(process.argv[2]), "127.0.0.1");`;

export async function run(argv: string[]): Promise<void> {
  const { values } = parseArgs({
    args: argv,
    options: { json: { type: "boolean", default: false }, calls: { type: "string", default: "2000" } },
  });
  requireRoot();
  await requirePrograms(progressLines());
  const report = createReporter("traffic", values.json);
  progress("starting etcd, kube-apiserver and kube-controller-manager");
  const cluster = await startControlPlane();
  const processes = new Processes(join(cluster.folder, "nodes"), join(cluster.folder, "logs"));
  const world = new World(cluster, processes);
  try {
    await world.start();
    for (const setting of SETTINGS) await measure(world, setting, Number(values.calls), report);
    await measureLoss(world, report);
  } finally {
    await world.stop();
    await processes.close(false);
    await cluster.stop();
  }
}

async function measure(
  world: World,
  setting: (typeof SETTINGS)[number],
  calls: number,
  report: Reporter,
): Promise<void> {
  progress(`trafficDistribution: ${setting ?? "none"}`);
  await world.distribute(setting);
  report.section({ nodes: NODES.length, distribution: setting ?? "no", connections: calls });
  for (const node of NODES) {
    const answers = await world.call(node, calls);
    const own = answers.filter((name) => name === node.name).length;
    report.figure({ name: `${node.name}: to its own proxy`, value: (100 * own) / calls, unit: "%" });
    report.figure({
      name: `${node.name}: failed`,
      value: answers.filter((name) => name === "failed").length,
      unit: "",
    });
  }
}

/** The only proxy of a node becomes unready, as when it drains, but continues to serve. */
async function measureLoss(world: World, report: Reporter): Promise<void> {
  const [node, other] = NODES;
  const at = performance.now();
  await world.setReady(node, false);
  let failed = 0;
  for (;;) {
    const [answer] = await world.call(node, 1);
    if (answer === "failed") failed += 1;
    if (answer === other.name) break;
    if (performance.now() - at > WAIT_MS) throw new Error("the other node's proxy takes over nothing");
  }
  report.figure({ name: "its proxy unready: to the other's", value: performance.now() - at, unit: "ms" });
  report.figure({ name: "... failed until then", value: failed, unit: "" });
}

class World {
  readonly #cluster: ControlPlane;
  readonly #processes: Processes;
  readonly #running: Component[] = [];
  #way: Server | undefined;

  constructor(cluster: ControlPlane, processes: Processes) {
    this.#cluster = cluster;
    this.#processes = processes;
  }

  async start(): Promise<void> {
    await this.#makeNetwork();
    const { port } = new URL(this.#cluster.url);
    const path = join(this.#cluster.folder, "way.sock");
    this.#way = createServer((socket) => {
      const other = dial(Number(port), "127.0.0.1");
      socket.pipe(other).pipe(socket);
      for (const side of [socket, other]) side.on("error", () => [socket, other].map((it) => it.destroy()));
    }).listen(path);
    for (const node of NODES) {
      this.#startIn(node, "way", process.execPath, ["-e", WAY, path, port]);
      this.#startIn(node, "listener", process.execPath, ["-e", LISTENER, node.name, node.pod]);
      await this.#makeObjects(node);
    }
    const selector = { app: "proxy" };
    await this.#call("POST", "/api/v1/namespaces/default/services", {
      metadata: { name: "front" },
      spec: { selector, clusterIP: SERVICE_IP, ports: [{ port: 80, targetPort: PORT }] },
    });
    for (const node of NODES) await this.#startKubeProxy(node);
  }

  async #startKubeProxy(node: Node): Promise<void> {
    this.#startIn(node, "kube-proxy", await binary("kube-proxy"), [
      `--kubeconfig=${this.#cluster.adminKubeconfig}`,
      `--hostname-override=${node.name}`,
      "--proxy-mode=nftables",
      `--cluster-cidr=${POD_RANGE}`,
      "--conntrack-max-per-core=0",
      "--conntrack-min=0",
    ]);
  }

  #startIn(node: Node, what: string, program: string, args: string[]): void {
    const inside = [`--net=/run/netns/${namespaceOf(node)}`, "--", program, ...args];
    this.#running.push(this.#processes.start(`${node.name}-${what}`, "nsenter", inside));
  }

  /**
   * Creates two namespaces joined by a veth, without a route to other networks. A pod's address is on its node's
   * loopback.
   */
  async #makeNetwork(): Promise<void> {
    const [a, b] = NODES;
    for (const node of NODES) {
      await command("ip", "netns", "add", namespaceOf(node));
      await command("ip", "-n", namespaceOf(node), "link", "set", "lo", "up");
      await command("ip", "-n", namespaceOf(node), "address", "add", `${node.pod}/32`, "dev", "lo");
    }
    const peer = ["type", "veth", "peer", "name", "eth0", "netns", namespaceOf(b)];
    await command("ip", "-n", namespaceOf(a), "link", "add", "eth0", ...peer);
    for (const [node, other] of [
      [a, b],
      [b, a],
    ] as const) {
      await command("ip", "-n", namespaceOf(node), "address", "add", `${node.address}/24`, "dev", "eth0");
      await command("ip", "-n", namespaceOf(node), "link", "set", "eth0", "up");
      await command("ip", "-n", namespaceOf(node), "route", "add", `${other.pod}/32`, "via", other.address);
      await command("ip", "-n", namespaceOf(node), "route", "add", SERVICE_RANGE, "dev", "eth0");
    }
  }

  async #makeObjects(node: Node): Promise<void> {
    const labels = { "kubernetes.io/hostname": node.name, "topology.kubernetes.io/zone": node.zone };
    await this.#call("POST", "/api/v1/nodes", { metadata: { name: node.name, labels } });
    await this.#merge(`/api/v1/nodes/${node.name}/status`, {
      status: {
        addresses: [{ type: "InternalIP", address: node.address }],
        allocatable: { cpu: "2" },
        capacity: { cpu: "2" },
        conditions: [{ type: "Ready", status: "True" }],
      },
    });
    const containers = [{ name: "main", image: "none", ports: [{ containerPort: PORT }] }];
    await this.#call("POST", PODS, {
      metadata: { name: `proxy-${node.name}`, labels: { app: "proxy" } },
      spec: { nodeName: node.name, tolerations: [{ operator: "Exists" }], containers },
    });
    await this.setReady(node, true);
  }

  async setReady(node: Node, ready: boolean): Promise<void> {
    const conditions = [{ type: "Ready", status: ready ? "True" : "False" }];
    await this.#merge(`${PODS}/proxy-${node.name}/status`, {
      status: { phase: "Running", podIP: node.pod, podIPs: [{ ip: node.pod }], conditions },
    });
  }

  /**
   * Sets the distribution and waits until each node's kube-proxy follows it. Resets it first, because two settings
   * may lead to the same proxies.
   */
  async distribute(setting: string | undefined): Promise<void> {
    if (setting !== undefined) await this.distribute(undefined);
    await this.#merge(FRONT, { spec: { trafficDistribution: setting ?? null } });
    for (const node of NODES) {
      await until(`${node.name} to follow`, async () => {
        const names = new Set(await this.call(node, 40));
        return setting === undefined
          ? names.size === 2 && !names.has("failed")
          : names.size === 1 && names.has(node.name);
      });
    }
  }

  async call(node: Node, times: number): Promise<string[]> {
    const inside = [`--net=/run/netns/${namespaceOf(node)}`, "--", process.execPath, "-e", CALLER, String(times)];
    return (await command("nsenter", ...inside)).trim().split("\n");
  }

  async #call(method: string, path: string, body: object, contentType = "application/json"): Promise<void> {
    await until(path, async () => {
      const answer = await this.#cluster.call({ method, path, body, contentType });
      return answer.status < 300;
    });
  }

  async #merge(path: string, body: object): Promise<void> {
    await this.#call("PATCH", path, body, "application/strategic-merge-patch+json");
  }

  async stop(): Promise<void> {
    await Promise.all(this.#running.map((component) => component.stop("SIGKILL")));
    this.#way?.close();
    const existing = await command("ip", "netns", "list");
    for (const node of NODES)
      if (existing.includes(namespaceOf(node))) await command("ip", "netns", "delete", namespaceOf(node));
  }
}

function namespaceOf({ name }: Node): string {
  return `switchback-traffic-${name}`;
}

async function until(what: string, condition: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + WAIT_MS;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`waited in vain for ${what}`);
    await delay(100);
  }
}
