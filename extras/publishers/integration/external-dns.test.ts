import assert from "node:assert/strict";
import { isIP } from "node:net";
import { after, before, describe, it } from "node:test";
import { dnsEndpointDefinition } from "#test/cluster/addons/definitions.ts";
import { ingress, namespaceYaml } from "#test/integration/objects.ts";
import { NAMESPACE, type System, startSystem, until } from "#test/integration/system.ts";
import { EXTERNAL_DNS } from "../external-dns.ts";
import { removePublisher } from "../remove.ts";
import { type PublisherRun, startPublisher } from "./publisher-run.ts";

// From an Ingress to objects that external-dns reads, on a real API server, with the account, the rights and the
// policy of the chart.

const PATH = `/apis/externaldns.k8s.io/v1alpha1/namespaces/${NAMESPACE}/dnsendpoints`;
const SERVICES = `/api/v1/namespaces/${NAMESPACE}/services`;
const INGRESSES = "/apis/networking.k8s.io/v1/namespaces/shop/ingresses";
const P99_FLOOR_MS = 3_000;

interface DnsEndpoint {
  readonly metadata: {
    readonly name: string;
    readonly generation: number;
    readonly labels: Readonly<Record<string, string>>;
  };
  readonly spec: {
    readonly endpoints: ReadonlyArray<{
      readonly dnsName: string;
      readonly recordType: string;
      readonly targets: readonly string[];
    }>;
  };
}

let system: System;
let publisher: PublisherRun;

before(async () => {
  system = await startSystem({ values: valuesOf("DNSEndpoint") });
  publisher = await start();
  await system.apply(namespaceYaml("shop"));
});
/** Values with the publisher, which writes objects of this kind. */
function valuesOf(kind: string) {
  const externalDns = { enabled: true, kind, removeWaitSeconds: 0, labels: { zone: "private" } };
  return { config: { map: { vanishSeconds: 0 }, publishers: { externalDns } } };
}

after(async () => {
  await publisher?.stop();
  await system?.stop();
});

const start = () => startPublisher(system, EXTERNAL_DNS);

async function endpoints(): Promise<DnsEndpoint[]> {
  const { body } = await system.cluster.call({ path: PATH });
  return (body as { items?: DnsEndpoint[] }).items ?? [];
}

const records = async () => (await endpoints()).flatMap(({ spec }) => spec.endpoints);
const has = async (name: string) => (await records()).some(({ dnsName }) => dnsName === name);

/** The status code of a write by the publisher's account. */
async function write(method: string, path: string, body?: object): Promise<number> {
  const contentType = method === "PATCH" ? "application/merge-patch+json" : "application/json";
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  return (await system.cluster.call({ method, path, token: publisher.token, contentType, ...sent })).status;
}

/** Metadata that this publisher gives to none of its objects, whatever their kind. */
const FOREIGN_METADATA = [
  { annotations: { "external-dns.kubernetes.io/controller": "other" } },
  { annotations: { "external-dns.kubernetes.io/internal-hostname": "x.example.com" } },
  { annotations: { "external-dns.alpha.kubernetes.io/alias": "true" } },
  { labels: { zone: "public" } },
  { labels: { mine: "yes" } },
  { finalizers: ["example.com/never"] },
];

/** One of our objects with additional metadata. */
function withMetadata(
  make: (name: string, label: string) => { readonly metadata: { readonly labels: object } },
  { labels, ...more }: { readonly labels?: object },
) {
  const object = make("switchback-names-511", "external-dns");
  return { ...object, metadata: { ...object.metadata, ...more, labels: { ...object.metadata.labels, ...labels } } };
}

describe("external-dns", () => {
  it("reports that the definition of DNSEndpoint is missing, and goes on once it exists", async () => {
    await system.apply(ingress("first", ["first.example.com"], { namespace: "shop" }));
    await until("the code", async () => {
      const state = (await publisher.store.read())?.state;
      return state !== undefined && "problem" in state && state.problem?.code === "external-dns-no-crd";
    });
    const args = ["apply", "--server-side", "-f", "-"];
    const { code, stderr } = await system.cluster.tool("kubectl", args, { input: await dnsEndpointDefinition() });
    assert.equal(code, 0, stderr);
    await until("the first name", async () => await has("first.example.com"), 15_000);
    const [object] = await endpoints();
    assert.deepEqual(object?.metadata.labels, {
      "app.kubernetes.io/name": "switchback",
      "switchback.dev/publisher": "external-dns",
      zone: "private",
    });
    const get = ["-n", NAMESPACE, "get", "service", "switchback-ingress-nginx", "-o", "jsonpath={.spec.clusterIPs[*]}"];
    const fronts = (await system.kubectl(...get)).split(" ");
    const [dnsName, recordTTL] = ["first.example.com", 60];
    assert.deepEqual(
      object?.spec.endpoints.toSorted((a, b) => a.recordType.localeCompare(b.recordType)),
      [4, 6].flatMap((family) => {
        const targets = fronts.filter((address) => isIP(address) === family);
        return targets.length === 0 ? [] : { dnsName, recordType: family === 4 ? "A" : "AAAA", recordTTL, targets };
      }),
    );
  });

  it("soon has the name of a new Ingress, and removes that of a deleted one", async (t) => {
    const took: number[] = [];
    for (let index = 0; index < 20; index += 1) {
      const name = `soon-${index}.example.com`;
      const body = JSON.parse(ingress(`soon-${index}`, [name], { namespace: "shop" }).split("---")[0] ?? "");
      const created = performance.now();
      const { status } = await system.cluster.call({ method: "POST", path: INGRESSES, body });
      assert.equal(status, 201);
      await until(name, async () => await has(name));
      took.push(performance.now() - created);
    }
    took.sort((a, b) => a - b);
    const [p50 = 0, p99 = 0] = [took[9], took.at(-1)];
    t.diagnostic(
      `Ingress created to DNSEndpoint, seen by asking every 50 ms: ${p50.toFixed(0)} ms p50, ${p99.toFixed(0)} ms ` +
        "at most of 20",
    );
    assert.ok(p99 < P99_FLOOR_MS, `${p99} ms`);
    await system.kubectl("-n", "shop", "delete", "ingress", "soon-0");
    await until("the name to be gone", async () => !(await has("soon-0.example.com")));
  });

  it("writes nothing while nothing changes, and restores what somebody has edited or deleted", async () => {
    const [object] = await endpoints();
    const path = `${PATH}/${object?.metadata.name}`;
    await publisher.looked();
    assert.equal((await endpoints())[0]?.metadata.generation, object?.metadata.generation);
    const spec = { endpoints: [] };
    const contentType = "application/merge-patch+json";
    await system.cluster.call({ method: "PATCH", path: `${path}?fieldManager=somebody`, contentType, body: { spec } });
    await until("the records again", async () => await has("first.example.com"), 15_000);
    await system.cluster.call({ method: "DELETE", path });
    await until("the object again", async () => await has("first.example.com"), 15_000);
  });

  it("has no right beyond its own objects: policy and RBAC", async () => {
    const object = (name: string, label: string, recordType = "A", target = "198.51.100.1", more: object = {}) => ({
      apiVersion: "externaldns.k8s.io/v1alpha1",
      kind: "DNSEndpoint",
      metadata: { name, labels: { "switchback.dev/publisher": label } },
      spec: { endpoints: [{ dnsName: "x.example.com", recordType, targets: [target], ...more }] },
    });
    const make = (made: object) => write("POST", `${PATH}?dryRun=All`, made);
    assert.equal(await make(object("switchback-names-511", "external-dns")), 201);
    assert.equal(await make(object("switchback-names-511", "other")), 403);
    assert.equal(await make(object("other", "external-dns")), 403);
    assert.equal(await make(object("switchback-names-511", "external-dns", "CNAME", "evil.example.com")), 403);
    assert.equal(await make(object("switchback-names-511", "external-dns", "A", "evil.example.com")), 403);
    const providerSpecific = [{ name: "alias", value: "true" }];
    for (const more of [{ providerSpecific }, { setIdentifier: "a" }, { labels: { owner: "others" } }])
      assert.equal(await make(object("switchback-names-511", "external-dns", "A", "198.51.100.1", more)), 403);
    for (const metadata of FOREIGN_METADATA) assert.equal(await make(withMetadata(object, metadata)), 403);
    const part = { annotations: { "switchback.dev/part": "a/1/0" }, labels: { zone: "private" } };
    assert.equal(await make(withMetadata(object, part)), 201);
    await system.cluster.call({ method: "POST", path: PATH, body: object("switchback-names-9", "theirs") });
    assert.equal(await write("DELETE", `${PATH}/switchback-names-9`), 403);
    assert.equal(await write("PATCH", `${PATH}/switchback-names-9`, { metadata: { labels: { a: "b" } } }), 403);
    const elsewhere = PATH.replace(NAMESPACE, "shop");
    assert.equal(await write("POST", elsewhere, object("switchback-names-0", "external-dns")), 403);
    assert.equal(
      await write("POST", SERVICES, { metadata: { name: "switchback-names-0" }, spec: { clusterIP: "None" } }),
      403,
    );
    assert.equal(await write("DELETE", `${SERVICES}/switchback-ingress-nginx`), 403);
  });

  it("is removed without a trace while it runs, and writes nothing afterwards", async () => {
    const lines: string[] = [];
    const { store, publisher: made } = publisher;
    await removePublisher({
      publisher: made,
      store,
      canAsk: false,
      timeoutMs: 10_000,
      now: Date.now,
      say: (line) => lines.push(line),
    });
    await store.delete();
    assert.match(lines.join("\n"), /taken out of the DNSEndpoint objects of the namespace switchback-system/);
    await system.apply(ingress("late", ["late.example.com"], { namespace: "shop" }));
    await until("the late name to be published to pods", async () =>
      (await system.publishedNames()).has("late.example.com"),
    );
    await publisher.looked();
    assert.deepEqual(
      (await endpoints()).map(({ metadata }) => metadata.name),
      ["switchback-names-9"],
    );
  });

  it("writes Services under the same restrictions if that is its kind", async () => {
    await publisher.stop();
    await system.install(valuesOf("Service"));
    publisher = await start();
    interface Service {
      readonly metadata: { readonly name: string; readonly annotations: Readonly<Record<string, string>> };
    }
    const ours = async () => {
      const path = `${SERVICES}?labelSelector=switchback.dev/publisher%3Dexternal-dns`;
      return ((await system.cluster.call({ path })).body as { items: Service[] }).items;
    };
    const hosts = async () =>
      (await ours()).map(({ metadata }) => metadata.annotations["external-dns.kubernetes.io/hostname"]).join();
    await until("the names in Services", async () => (await hosts()).includes("late.example.com"), 15_000);
    const service = (name: string, spec: object) => ({
      apiVersion: "v1",
      kind: "Service",
      metadata: { name, labels: { "switchback.dev/publisher": "external-dns" } },
      spec: { ports: [{ port: 1 }], ...spec },
    });
    const make = (name: string, spec: object) => write("POST", `${SERVICES}?dryRun=All`, service(name, spec));
    await until("the policy to be in force", async () => (await make("other", { clusterIP: "None" })) === 403);
    assert.equal(await make("switchback-names-511", { clusterIP: "None" }), 201);
    assert.equal(await make("switchback-names-511", {}), 403, "a ClusterIP of its own");
    assert.equal(await make("switchback-names-511", { clusterIP: "None", selector: { app: "a" } }), 403);
    assert.equal(await make("switchback-names-511", { type: "ExternalName", externalName: "evil.example.com" }), 403);
    assert.equal(await write("DELETE", `${SERVICES}/switchback-ingress-nginx`), 403);
    const headless = (name: string) => service(name, { clusterIP: "None" });
    const post = (metadata: object) => write("POST", `${SERVICES}?dryRun=All`, withMetadata(headless, metadata));
    for (const prefix of ["external-dns.kubernetes.io/", "external-dns.alpha.kubernetes.io/"]) {
      const of = (target: string, ttl = "60") => ({
        annotations: { [`${prefix}hostname`]: "x.example.com", [`${prefix}target`]: target, [`${prefix}ttl`]: ttl },
      });
      assert.equal(await post(of("198.51.100.1,2001:db8::1")), 201);
      assert.equal(await post(of("evil.example.com")), 403);
      assert.equal(await post(of("198.51.100.1", "1")), 403);
    }
    for (const metadata of FOREIGN_METADATA) assert.equal(await post(metadata), 403, JSON.stringify(metadata));
    for (const spec of [{ publishNotReadyAddresses: true }, { ports: [{ port: 1, appProtocol: "https" }] }])
      assert.equal(await make("switchback-names-511", { clusterIP: "None", ...spec }), 403);
    await publisher.publisher.remove();
    assert.deepEqual(await ours(), []);
  });
});
