import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { PRESETS } from "../../sources/custom/presets.ts";
import { foundName } from "../../targets/service-view.ts";
import { namespaceYaml } from "./objects.ts";
import { type System, startSystem, until } from "./system.ts";

// Kinds by configuration, with the rights that the chart gives for them: a definition that checks nothing, one of a preset, Services.

const WIDGETS = {
  group: "example.com",
  version: "v1",
  resource: "widgets",
  hostnames: "$.hosts[*]",
  class: "$.class",
  className: "edge",
};
const ROUTES = PRESETS["traefik-ingressroute"];
const QUOTA = 20;

let system: System;
before(async () => {
  const config = {
    map: { vanishSeconds: 0 },
    sources: { discoverySeconds: 1, custom: [WIDGETS], presets: ["traefik-ingressroute"], services: { enabled: true } },
    policy: { maxNamesPerNamespace: QUOTA },
    targets: [
      { name: "edge", upstream: { service: { namespace: "edge", name: "edge" } }, classes: ["edge"] },
      { name: "traefik", upstream: { service: { namespace: "edge", name: "traefik" } }, classes: ["traefik"] },
    ],
  };
  system = await startSystem({ values: { config } });
  await system.apply(["shop", "hostile"].map((name) => namespaceYaml(name)).join(""));
  await install("Widget", WIDGETS.group, WIDGETS.version, WIDGETS.resource);
  await install("IngressRoute", ROUTES.group, ROUTES.versions[0] ?? "", ROUTES.resource);
});
after(() => system?.stop());

/** A definition that takes every shape. */
async function install(kind: string, group: string, version: string, plural: string): Promise<void> {
  const openAPIV3Schema = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
  const definition = {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: "Namespaced",
      names: { kind, plural, singular: kind.toLowerCase() },
      versions: [{ name: version, served: true, storage: true, schema: { openAPIV3Schema } }],
    },
  };
  await system.apply(JSON.stringify(definition));
  await system.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", `${plural}.${group}`);
}

async function put(path: string, object: { metadata: { name: string } }): Promise<void> {
  const { status, body } = await system.cluster.call({ method: "POST", path, body: object });
  assert.equal(status, 201, JSON.stringify(body));
}

const widget = (name: string, fields: object, namespace = "shop") =>
  put(`/apis/example.com/v1/namespaces/${namespace}/widgets`, {
    ...fields,
    ...{ apiVersion: "example.com/v1", kind: "Widget", metadata: { name } },
  });

async function leadsTo(name: string, target: string): Promise<void> {
  await until(`${name} to lead to ${target}`, async () => {
    const { spec } = await system.json<{ spec: { clusterIPs: string[] } }>(
      ...["-n", "switchback-system", "get", "svc", `switchback-${target}`],
    );
    return (await system.published()).get(name)?.join() === spec.clusterIPs.join();
  });
}

async function reasons(from: string): Promise<[name: string, code: string | undefined][]> {
  const { names } = await (await system.leader()).status();
  return names.filter((entry) => entry.from.name === from).map(({ name, reason }) => [name, reason?.code]);
}

describe("a kind by configuration", () => {
  it("is read once it is installed, by class", async () => {
    await widget("one", { hosts: ["one.example.com", "*.one.example.com"] });
    await widget("two", { hosts: ["two.example.com"], class: "traefik" });
    await leadsTo("one.example.com", "edge");
    await leadsTo("two.example.com", "traefik");
    assert.deepEqual(await reasons("one"), [
      ["one.example.com", undefined],
      ["*.one.example.com", "wildcard"],
    ]);
  });

  it("of a preset is read like its controller reads it", async () => {
    const route = {
      apiVersion: `${ROUTES.group}/${ROUTES.versions[0]}`,
      kind: "IngressRoute",
      metadata: { name: "route" },
    };
    const match = "Host(`r1.example.com`) && PathPrefix(`/`) || Host(`r2.example.com`)";
    await put(`/apis/${route.apiVersion}/namespaces/shop/ingressroutes`, {
      ...route,
      ...{ spec: { routes: [{ match }] } },
    });
    await leadsTo("r1.example.com", "traefik");
    await leadsTo("r2.example.com", "traefik");
  });

  it("that is a Service is seen with external-dns's annotation, and nothing else of it", async () => {
    const annotations = { "external-dns.alpha.kubernetes.io/hostname": "service.example.com" };
    await system.apply(
      JSON.stringify({
        apiVersion: "v1",
        kind: "Service",
        metadata: { namespace: "shop", name: "balanced", annotations },
        spec: { type: "LoadBalancer", ports: [{ port: 80 }] },
      }),
    );
    await until("its claim", async () => (await reasons("balanced")).length === 1);
    const status = { loadBalancer: { ingress: [{ ip: "203.0.113.81" }] } };
    const args = ["-n", "shop", "patch", "service", "balanced", "--subresource=status", "--type=merge", "-p"];
    await system.kubectl(...args, JSON.stringify({ status }));
    await until("the Service to be its own target", async () => {
      const { names } = await (await system.leader()).status();
      return names.find(({ name }) => name === "service.example.com")?.target === foundName("shop", "balanced");
    });
  });
});

describe("a tenant with a kind that checks nothing", () => {
  it("gets no name with a control character, or of another shape, into the map; each is refused with a reason", async () => {
    const hosts = [
      "a.example.com\n192.0.2.66 bank.example.com",
      "zero\u0000.example.com",
      "\u001b[2Jscreen.example.com",
      "right\u202eleft.example.com",
      "tab\t.example.com",
      "x".repeat(100_000),
      { nested: "map.example.com" },
      7,
      "kubernetes.default.svc",
      "acme-v02.api.letsencrypt.org",
      "good.example.com",
    ];
    await widget("hostile", { hosts }, "hostile");
    await leadsTo("good.example.com", "edge");
    const codes = (await reasons("hostile")).map(([, code]) => code).sort();
    assert.deepEqual(codes, [
      "acme-server",
      "cluster-domain",
      "name-not-rfc1123",
      "name-not-rfc1123",
      "name-not-rfc1123",
      "name-not-rfc1123",
      "name-not-rfc1123",
      "name-too-long",
      "syntax-invalid",
      undefined,
    ]);
    const texts = await system.kubectl(
      "-n",
      "switchback-system",
      "get",
      "cm",
      "-l",
      "switchback.dev/map=hosts",
      "-o",
      "yaml",
    );
    assert.ok(!/bank|zero|screen|right|tab|nested|letsencrypt|kubernetes\.default\.svc/.test(texts), texts);
  });

  it("does not fill the controller with names: an object's are bounded, and a namespace's", async () => {
    const label = "x".repeat(60);
    const hosts = Array.from({ length: 5_000 }, (_, index) => `n${index}.${label}.${label}.${label}.example.com`);
    await widget("greedy", { hosts }, "hostile");
    const mapped = async () => (await reasons("greedy")).filter(([, code]) => code === undefined).length;
    await until("the quota", async () => (await mapped()) > 0 && (await mapped()) <= QUOTA);
    const found = await reasons("greedy");
    assert.equal(found.length, 1_001);
    assert.equal(found.filter(([, code]) => code === "too-many-names").length, 1);
  });
});
