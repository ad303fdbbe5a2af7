import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { parseAllDocuments } from "yaml";
import { NGINX } from "../cluster/addons/load-balancers.ts";
import { namespace, RESTRICTED_CONTAINER, RESTRICTED_POD } from "../cluster/addons/objects.ts";
import type { Cluster, KubeObject } from "../cluster/cluster.ts";
import { ADDRESSES } from "../cluster/node/layout.ts";
import { withCluster } from "../cluster/whole.ts";
import { MONITORING } from "./network-policy.ts";
import { IMAGE_NAME, programCommand, programDeployment } from "./programs/run.ts";
import { AGENTS, installSwitchback, SYSTEM, withAgent } from "./switchback.ts";

// Tests the chart's NetworkPolicies, as narrow as network-policy.ts makes them. They must allow what is needed and
// nothing else. The test tries every port at which a component listens, from everywhere, and everything that a
// component might connect to. Programs of the node itself, such as its API server and kubelet, can reach its pods
// despite any policy.

export const needs = ["ipv4", "network-policies"];

const STRANGER = "stranger";
const COMPONENTS = { controller: SYSTEM, webhook: SYSTEM, proxy: SYSTEM, agent: AGENTS } as const;
type Component = keyof typeof COMPONENTS;
type Pod = { pod: string; address: string };
/** The place from which a test tries what it can reach: a pod, or an address of the internet. */
type Place = Pod | { outside: string };
/** What a port is for. */
type Purpose = "health" | "webhook" | "relay";

/** The port of programs/strict.ts. */
const STRICT_PORT = 8080;
const HEALTH: Readonly<Record<Component, number>> = { controller: 8080, webhook: 8081, proxy: 8082, agent: 8083 };
const WEBHOOK = 8443;
/** The state of a listening socket in the kernel's list. */
const LISTENING = "0A";

let cluster: Cluster;
let stranger: Pod;
let monitoring: Pod;
/** Stand-ins for the pods that `helm uninstall` runs. */
let hooks: Pod[];
let hookObjects: KubeObject[] = [];
const components = new Map<Component, Pod>();
const ports = new Map<Component, number[]>();
const apiServerElsewhere: Place = { outside: ADDRESSES.client };
const internet: Place = { outside: ADDRESSES.publicDns };

before(async () => {
  cluster = await withCluster();
  await installSwitchback(cluster, withAgent());
  for (const name of [STRANGER, MONITORING]) {
    await cluster.apply(namespace(name), programDeployment(name, "pod", programCommand("serve")));
  }
  const standIns = await hookStandIns();
  hookObjects = [...standIns.policies, ...standIns.pods];
  assert.equal(standIns.pods.length, 2);
  await cluster.delete(...standIns.pods);
  await cluster.apply(...hookObjects);
  await cluster.kubectl("-n", SYSTEM, "wait", "--for=condition=Ready", "--timeout=60s", "pod", ...HOOKS);
  hooks = [];
  for (const name of HOOKS) {
    hooks.push(await podPlace(SYSTEM, `app.kubernetes.io/component=${name.replace("switchback-", "")}`));
  }
  await cluster.rolledOut(STRANGER, "deployment/pod");
  await cluster.rolledOut(MONITORING, "deployment/pod");
  stranger = await podPlace(STRANGER, "app=pod");
  monitoring = await podPlace(MONITORING, "app=pod");
  for (const [component, of] of Object.entries(COMPONENTS) as [Component, string][]) {
    const selector = `app.kubernetes.io/name=switchback,app.kubernetes.io/component=${component}`;
    const pod = await podPlace(of, selector);
    components.set(component, pod);
    ports.set(component, await listeningPorts(pod.pod));
  }
});

const HOOKS = ["switchback-uninstall"];

after(async () => {
  await cluster?.delete(...hookObjects);
  await cluster?.kubectl("delete", "namespace", STRANGER, MONITORING, "--ignore-not-found", "--timeout=120s");
});

function purposeOf(component: Component, port: number): Purpose {
  if (port === HEALTH[component]) return "health";
  if (component === "webhook" && port === WEBHOOK) return "webhook";
  assert.equal(component, "proxy", `${component} listens at ${port}: nobody has said who may connect to it`);
  return "relay";
}

/** Every port of every component in the form that `reached` takes, with its purpose. */
function listening(): { address: string; component: Component; purpose: Purpose }[] {
  return [...ports].flatMap(([component, own]) =>
    own.map((port) => {
      const address = `tcp:${components.get(component)?.address}:${port}`;
      return { address, component, purpose: purposeOf(component, port) };
    }),
  );
}

function portsFor(...purposes: Purpose[]): string[] {
  return listening().flatMap(({ address, purpose }) => (purposes.includes(purpose) ? [address] : []));
}

function place(component: Component): Pod {
  const pod = components.get(component);
  assert.ok(pod);
  return pod;
}

const all = () => portsFor("health", "webhook", "relay");

test("every component listens, and the proxy also listens for connections of pods", () => {
  assert.deepEqual(new Set(listening().map(({ component }) => component)), new Set(Object.keys(COMPONENTS)));
  assert.deepEqual(portsFor("webhook").length, 1);
  assert.ok(portsFor("relay").length >= 2, "one for each port of a target");
});

test("any pod reaches the proxies' relaying ports, and no other port of a component", async () => {
  assert.deepEqual(await reached(stranger, all()), portsFor("relay"));
});

test("a pod that may read metrics also reaches health ports, but not the webhook", async () => {
  assert.deepEqual(await reached(monitoring, all()), portsFor("health", "relay"));
});

test("an API server on another machine reaches webhook and health ports, but no relaying port", async () => {
  assert.deepEqual(await reached(apiServerElsewhere, all()), portsFor("health", "webhook"));
});

test("no other client outside the cluster reaches any port", async () => {
  assert.deepEqual(await reached(internet, all()), []);
});

test("components reach no port of each other, but the controller reaches webhook's and proxy's health", async () => {
  for (const component of components.keys()) {
    const others = listening().filter((port) => port.component !== component);
    const isFollowed = (port: (typeof others)[number]) =>
      component === "controller" && port.purpose === "health" && port.component !== "agent";
    const addresses = others.map(({ address }) => address);
    const expected = others.filter(isFollowed).map(({ address }) => address);
    assert.deepEqual(await reached(place(component), addresses), expected, component);
  }
});

const API_SERVER = [`tcp:${ADDRESSES.node}:6443`, `tcp:${ADDRESSES.apiService}:443`];
const DNS = [`tcp:${ADDRESSES.dnsService}:53`, `dns:${ADDRESSES.dnsService}`];

/**
 * An ingress controller, by its Service's address and by its load balancer's address, which kube-proxy
 * short-circuits.
 */
async function ingressController(): Promise<string[]> {
  const get = ["-n", NGINX.namespace, "get", "service", NGINX.service, "-o", "jsonpath={.spec.clusterIP}"];
  return [`tcp:${await cluster.kubectl(...get)}:80`, `tcp:${NGINX.address}:80`];
}

/** Everything that one of our pods might connect to, including another pod, the kubelet and the internet. */
async function anything(): Promise<string[]> {
  const elsewhere = [`${stranger.address}:${STRICT_PORT}`, `${ADDRESSES.node}:10250`, `${ADDRESSES.acme}:14000`];
  return [...API_SERVER, ...DNS, ...(await ingressController()), ...elsewhere.map((address) => `tcp:${address}`)];
}

test("a pod without a policy reaches all of these, so only a policy refuses what fails below", async () => {
  const addresses = await anything();
  assert.deepEqual(await reached(monitoring, addresses), addresses);
});

test("each component reaches the API server and what else it needs: DNS, the ingress controllers", async () => {
  const addresses = await anything();
  const expected: Readonly<Record<Component, string[]>> = {
    controller: [...API_SERVER, ...DNS],
    webhook: API_SERVER,
    proxy: [...API_SERVER, ...DNS, ...(await ingressController())],
    agent: API_SERVER,
  };
  for (const component of components.keys()) {
    assert.deepEqual(await reached(place(component), addresses), expected[component], component);
  }
});

test("the pods that `helm uninstall` runs reach only the API server, and nobody reaches them", async () => {
  const addresses = await anything();
  for (const hook of hooks) {
    assert.deepEqual(await reached(hook, addresses), API_SERVER, hook.pod);
    for (const from of [stranger, monitoring, apiServerElsewhere]) {
      assert.deepEqual(await reached(from, [`tcp:${hook.address}:${STRICT_PORT}`]), [], hook.pod);
    }
  }
});

test("if the policy of a component is deleted, every pod reaches all its ports", async () => {
  const names = Object.entries(COMPONENTS).map(([component, of]) => [of, `switchback-${component}`] as const);
  for (const [of, name] of names) await cluster.kubectl("-n", of, "delete", "networkpolicy", name);
  await cluster.until("all ports are open", 30, async () => {
    return (await reached(stranger, all())).length === all().length || undefined;
  });
  await installSwitchback(cluster, withAgent());
  await cluster.until("they are closed again", 30, async () => {
    const answered = await reached(stranger, all());
    assert.deepEqual(answered, portsFor("relay"));
    return true;
  });
});

/** Which of the addresses (`tcp:IP:PORT`, `dns:IP`: programs/client.ts) answer a client at this place. */
async function reached(place: Place, addresses: readonly string[]): Promise<string[]> {
  const [source, run] =
    "pod" in place
      ? ["any", (...command: string[]) => cluster.exec(place.pod, ...command)]
      : [place.outside, (_: string, ...args: string[]) => cluster.outside(process.execPath, ...args)];
  const [node = "", ...args] = programCommand("reach", source, ...addresses);
  const { stdout, stderr } = await run(node, ...args);
  assert.match(stdout, /^\[/, stderr);
  return JSON.parse(stdout) as string[];
}

interface RawPods {
  items: { metadata: { name: string; deletionTimestamp?: string }; status: { podIP?: string } }[];
}

/** One of the pods that a selector matches, without those that are being deleted. */
async function podPlace(namespace: string, selector: string): Promise<Pod> {
  const { items } = await cluster.get<RawPods>("-n", namespace, "pods", "-l", selector);
  const pod = items.find(({ metadata }) => metadata.deletionTimestamp === undefined);
  assert.ok(pod?.status.podIP, `${namespace}: no pod has ${selector}`);
  return { pod: `${namespace}/${pod.metadata.name}`, address: pod.status.podIP };
}

/** The TCP ports at which other machines can reach a pod, from the kernel's list. */
async function listeningPorts(pod: string): Promise<number[]> {
  const program = `for (const file of ["tcp", "tcp6"]) console.log(fs.readFileSync("/proc/net/" + file, "utf8"))`;
  const { stdout, stderr } = await cluster.exec(pod, "node", "-e", program);
  const sockets = stdout.split("\n").map((line) => line.trim().split(/\s+/));
  const own = sockets.filter(([, , , state]) => state === LISTENING).map(([, local = ""]) => local.split(":"));
  const ports = own.filter(([address]) => address !== "0100007F").map(([, port = ""]) => Number.parseInt(port, 16));
  assert.ok(ports.length > 0, stderr);
  return [...new Set(ports)].sort((a, b) => a - b);
}

/** The NetworkPolicies that exist only while `helm uninstall` runs, and a stand-in for the pod of each hook. */
async function hookStandIns(): Promise<{ policies: KubeObject[]; pods: KubeObject[] }> {
  const hooks = await cluster.helm("get", "hooks", "switchback", "--namespace", SYSTEM);
  const objects = parseAllDocuments(hooks).map((document) => document.toJS() as KubeObject);
  const policies = objects.filter(({ kind }) => kind === "NetworkPolicy");
  const jobs = objects.filter(({ kind }) => kind === "Job") as (KubeObject & {
    spec: { template: { metadata: { labels: Record<string, string> } } };
  })[];
  const pods = jobs.map(({ metadata, spec }) => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { ...metadata, labels: spec.template.metadata.labels },
    spec: {
      terminationGracePeriodSeconds: 0,
      securityContext: RESTRICTED_POD,
      containers: [
        {
          name: "main",
          image: IMAGE_NAME,
          imagePullPolicy: "Never",
          command: programCommand("serve"),
          securityContext: RESTRICTED_CONTAINER,
        },
      ],
    },
  }));
  return { policies, pods };
}
