import assert from "node:assert/strict";
import { ingress, podObject } from "../../objects.ts";
import { until } from "../../system.ts";
import type { Attack } from "../attack.ts";
import { HOSTILE, NEIGHBOUR, NEIGHBOUR_NAME, type Stage } from "../stage.ts";

/** Below the API server's limit of 1.5 MiB per request. */
const LARGEST_OBJECT_BYTES = 1_300_000;
const MANY_OBJECTS = 60;
const DNS_NAME_BYTES = 253;
/** Where the relay of a second process listens. */
const SPARE_LOOPBACK = "127.59.0.1";

export const TENANT_ATTACKS: readonly Attack[] = [
  {
    name: "odd owner reference",
    by: "tenant",
    async run(stage) {
      const pod = await stage.runPod(NEIGHBOUR, "follows");
      const owners = ["..", ".", "a/b", "%2e%2e", "\u001b[2J", "x".repeat(5_000)];
      for (const [index, name] of owners.entries()) {
        const uid = `00000000-0000-4000-9000-00000000000${index}`;
        const ownerReferences = [{ apiVersion: "apps/v1", kind: "Deployment", name, uid, controller: true }];
        await stage.runPod(HOSTILE, `odd-${index}`, { ownerReferences });
      }
      const took = await stage.follow(pod);
      await stage.removePods(HOSTILE);
      await stage.removePods(NEIGHBOUR);
      return { tried: "opted-in pods owned by a Deployment named .., a/b, ...", outcome: followed(took) };
    },
  },
  {
    name: "names that sort first",
    by: "tenant",
    async run(stage) {
      const hosts = Array.from({ length: 1_000 }, (_, index) => `0000-${String(index).padStart(4, "0")}.example.com`);
      await createIngress(stage, "first", hosts);
      await until("the names to be published", async () => (await stage.system.publishedNames()).has(hosts[0] ?? ""));
      await stage.check();
      const took = await stage.spread();
      await sweep(stage);
      return { tried: "an Ingress of 1,000 hosts that sort before every other", outcome: after(took) };
    },
  },
  {
    name: "names of many labels",
    by: "tenant",
    async run(stage) {
      const deep = (index: number) => `${index}.${"a.".repeat(110)}example.com`.slice(-DNS_NAME_BYTES);
      await createIngress(
        stage,
        "deep",
        Array.from({ length: 1_000 }, (_, index) => deep(index)),
      );
      const took = await stage.spread();
      const pod = podObject(HOSTILE, "pattern", { annotations: { "switchback.dev/hosts": "*.a.example.com, shop.*" } });
      const { status } = await stage.tenant({ method: "POST", path: `${pods(HOSTILE)}?dryRun=All`, body: pod });
      assert.equal(status, 201);
      await sweep(stage);
      return { tried: "1,000 names of 112 labels, and a pod that chooses by pattern", outcome: after(took) };
    },
  },
  {
    name: "in-cluster names",
    by: "tenant",
    async run(stage) {
      const names = [
        "ingress-nginx-controller.ingress-nginx",
        "a.ingress-nginx-controller.ingress-nginx",
        "vault.neighbour",
      ];
      await createIngress(stage, "hijack", names);
      await createIngress(stage, "marker", ["marker.hostile.example.com"]);
      await until("the marker", async () => (await stage.system.publishedNames()).has("marker.hostile.example.com"));
      const published = await stage.system.publishedNames();
      assert.deepEqual(
        names.filter((name) => published.has(name)),
        [],
      );
      await sweep(stage);
      return { tried: names.join(", "), outcome: "refused; an ordinary name of the same tenant is mapped" };
    },
  },
  {
    name: "someone else's name",
    by: "tenant",
    async run(stage) {
      const before = (await stage.system.published()).get(NEIGHBOUR_NAME);
      await createIngress(stage, "steal", [NEIGHBOUR_NAME, "marker2.hostile.example.com"], "no-such-class");
      await createIngress(stage, "steal2", [NEIGHBOUR_NAME, "marker3.hostile.example.com"]);
      await until("the marker", async () => (await stage.system.publishedNames()).has("marker3.hostile.example.com"));
      assert.deepEqual((await stage.system.published()).get(NEIGHBOUR_NAME), before);
      await sweep(stage);
      return { tried: `two younger Ingresses for ${NEIGHBOUR_NAME}`, outcome: "the older one keeps it" };
    },
  },
  {
    name: "a target of its choice",
    by: "tenant",
    async run(stage) {
      const annotations = { "switchback.dev/target": "ingress-nginx" };
      await createIngress(stage, "choice", ["choice.hostile.example.com", NEIGHBOUR_NAME], "nginx", annotations);
      await createIngress(stage, "marker", ["marker4.hostile.example.com"]);
      const before = (await stage.system.published()).get(NEIGHBOUR_NAME);
      await until("the marker", async () => (await stage.system.publishedNames()).has("marker4.hostile.example.com"));
      const published = await stage.system.published();
      assert.equal(published.has("choice.hostile.example.com"), false);
      assert.deepEqual(published.get(NEIGHBOUR_NAME), before);
      await sweep(stage);
      return { tried: "an Ingress that names a target", outcome: "not mapped: policy.targets allows none by default" };
    },
  },
  {
    name: "Service of many ports",
    by: "tenant",
    async run(stage) {
      for (const [index, count] of [201, 3_000].entries()) {
        const ports = Array.from({ length: count }, (_, port) => ({ name: `p${port}`, port: port + 1 }));
        const metadata = { name: `many-${index}` };
        const body = {
          apiVersion: "v1",
          kind: "Service",
          metadata,
          spec: { type: "LoadBalancer", allocateLoadBalancerNodePorts: false, ports },
        };
        const services = `/api/v1/namespaces/${HOSTILE}/services`;
        const { status, body: answer } = await stage.tenant({ method: "POST", path: services, body });
        assert.equal(status, 201, JSON.stringify(answer));
        await giveAddress(stage, `${services}/many-${index}`, { ip: `192.0.2.${100 + index}` });
        await createIngress(stage, `many-${index}`, [`many-${index}.hostile.example.com`], "elsewhere");
        await giveAddress(stage, `${ingresses(HOSTILE)}/many-${index}`, { ip: `192.0.2.${100 + index}` });
      }
      const took = await stage.spread();
      const [proxy] = stage.system.proxies;
      assert.deepEqual(await proxy?.page("/readyz").then(({ status }) => status), 200);
      await sweep(stage);
      return { tried: "found targets with 201 and with 3,000 ports", outcome: after(took) };
    },
  },
  {
    name: "forged annotations",
    by: "tenant",
    async run(stage) {
      const alias = { ip: "198.51.100.1", hostnames: ["a"] };
      const pod = podObject(HOSTILE, "forged", {
        annotations: {
          "switchback.dev/owned": "1 ".repeat(62_000).trim(),
          "switchback.dev/revision": "x".repeat(1_000),
        },
        hostAliases: Array.from({ length: 20_000 }, () => alias),
      });
      const tries = Array.from({ length: 5 }, () =>
        stage.tenant({ method: "POST", path: `${pods(HOSTILE)}?dryRun=All`, body: pod }),
      );
      const answers = (await Promise.all(tries)).map(({ status }) => status);
      assert.ok(
        answers.every((status) => status < 500),
        `${answers}`,
      );
      return {
        tried: "5 pods with 20,000 aliases and 62,000 owned marks",
        outcome: `answered ${[...new Set(answers)]}`,
      };
    },
  },
  {
    name: "largest objects",
    by: "tenant",
    async run(stage) {
      const bulk = "x".repeat(LARGEST_OBJECT_BYTES);
      for (let index = 0; index < MANY_OBJECTS; index += 1) {
        // Annotations are limited to 256 KiB; the rules of an Ingress are not.
        const paths = [
          { path: `/${bulk}`, pathType: "Exact", backend: { service: { name: "a", port: { number: 80 } } } },
        ];
        const spec = { ingressClassName: "nginx", rules: [{ host: `bulk-${index}.example.com`, http: { paths } }] };
        const body = { apiVersion: "networking.k8s.io/v1", kind: "Ingress", metadata: { name: `bulk-${index}` }, spec };
        const { status } = await stage.tenant({ method: "POST", path: ingresses(HOSTILE), body });
        assert.equal(status, 201);
      }
      await until("the last of them", async () =>
        (await stage.system.publishedNames()).has(`bulk-${MANY_OBJECTS - 1}.example.com`),
      );
      const { end } = await startSpare(stage);
      await end();
      const took = await stage.spread();
      await sweep(stage);
      return {
        tried: `${MANY_OBJECTS} Ingresses of 1.3 MB, and a controller that starts among them`,
        outcome: after(took),
      };
    },
  },
];

const pods = (namespace: string) => `/api/v1/namespaces/${namespace}/pods`;
export const ingresses = (namespace: string) => `/apis/networking.k8s.io/v1/namespaces/${namespace}/ingresses`;
const followed = (ms: number) => `a neighbour's running pod had a new name after ${ms.toFixed(0)} ms`;
export const after = (ms: number) => `a neighbour's new name was in its pods after ${ms.toFixed(0)} ms`;

/** Creates an Ingress of the tenant. */
export async function createIngress(
  stage: Stage,
  name: string,
  hosts: readonly string[],
  className = "nginx",
  annotations: object = {},
): Promise<void> {
  const body = JSON.parse(ingress(name, hosts, { namespace: HOSTILE, className }).replace("---", ""));
  body.metadata.annotations = { ...body.metadata.annotations, ...annotations };
  const { status } = await stage.tenant({ method: "POST", path: ingresses(HOSTILE), body });
  assert.equal(status, 201);
}

/** Starts another controller, which lists everything. Returns it when it is ready, with a function that ends it. */
export async function startSpare({ system, profile }: Stage) {
  // In the profile `small`, the controller is a part of the only process.
  const parts =
    profile === "small" ? await system.startAll(SPARE_LOOPBACK) : { controller: await system.start("controller") };
  const { controller: spare } = parts;
  await until("the new controller to know everything", async () => {
    assert.equal(spare.process.exited, undefined);
    return (await spare.page("/readyz")).status === 200;
  });
  const end = async () => {
    assert.equal(spare.process.exited, undefined, "the new controller has ended");
    for (const part of Object.values(parts)) await system.end(part, "SIGTERM");
  };
  return { spare, end };
}

/** Deletes every Ingress of the tenant. */
export async function sweep(stage: Stage): Promise<void> {
  const { status } = await stage.tenant({ method: "DELETE", path: ingresses(HOSTILE) });
  assert.equal(status, 200);
}

/** Writes addresses into an object's status, as a cloud's controller or an ingress controller does. */
export async function giveAddress(
  stage: Stage,
  path: string,
  ...addresses: readonly { readonly ip?: string; readonly hostname?: string }[]
): Promise<void> {
  const body = { status: { loadBalancer: { ingress: addresses } } };
  const request = { method: "PATCH", path: `${path}/status`, contentType: "application/merge-patch+json", body };
  const { status } = await stage.system.cluster.call(request);
  assert.equal(status, 200);
}
