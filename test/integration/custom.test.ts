import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { PRESETS } from "#controller/sources/custom.ts";
import { ISTIO_KINDS } from "#controller/sources/istio.ts";
import { foundName } from "#controller/targets/service-view.ts";
import type { PresetName } from "#lib/config/sources.ts";
import { installKind } from "./gateway-api.ts";
import { namespaceYaml } from "./objects.ts";
import { PRESET_OBJECTS } from "./preset-objects.ts";
import { type System, startSystem, until } from "./system.ts";

// Configured kinds, with the rights that the chart grants for them: those of all presets, another one, and
// Services.

const WIDGETS = {
  group: "example.com",
  version: "v1",
  resource: "widgets",
  hostnames: "$.hosts[*]",
  class: "$.class",
  className: "edge",
};
const KINDS = { ...PRESETS, ...ISTIO_KINDS };
const PRESET_NAMES = Object.keys(KINDS) as PresetName[];
/** Each class has a target of the same name. */
const CLASSES = ["edge", ...new Set(Object.values(PRESET_OBJECTS).map(({ className }) => className))];
const QUOTA = 20;
/** docs/policy.md: claims that the controller keeps of a namespace, for each name of its quota. */
const CLAIMS_PER_NAME = 4;

let system: System;
before(async () => {
  const config = {
    map: { vanishSeconds: 0 },
    sources: { custom: [WIDGETS], presets: PRESET_NAMES, services: { enabled: true } },
    policy: { maxNamesPerNamespace: QUOTA, requireAdmitted: true },
    targets: CLASSES.map((name) => ({
      name,
      upstream: { service: { namespace: "edge", name } },
      classes: [name],
    })),
  };
  system = await startSystem({ values: { config } });
  await system.apply(["shop", "hostile"].map((name) => namespaceYaml(name)).join(""));
  // Istio's Gateways select the pods that serve them by labels.
  const spec = { selector: { app: "gateway", istio: "ingressgateway" }, ports: [{ port: 443 }] };
  await system.apply(namespaceYaml("edge"));
  await system.apply(
    JSON.stringify({ apiVersion: "v1", kind: "Service", metadata: { namespace: "edge", name: "istio" }, spec }),
  );
  await installKind(system, "Widget", WIDGETS);
  for (const name of PRESET_NAMES) {
    await installKind(system, PRESET_OBJECTS[name].kind, { ...KINDS[name], version: versionOf(name) });
  }
});
after(() => system?.stop());

const versionOf = (name: PresetName) => KINDS[name].versions[0] ?? "";

async function put(path: string, object: object): Promise<void> {
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

  for (const preset of PRESET_NAMES) {
    it(`of the preset ${preset} gives its names`, async () => {
      const { kind, spec, status, annotations = {}, names, className } = PRESET_OBJECTS[preset];
      const apiVersion = `${KINDS[preset].group}/${versionOf(preset)}`;
      const path = `/apis/${apiVersion}/namespaces/shop/${KINDS[preset].resource}`;
      await put(path, { apiVersion, kind, metadata: { name: preset, annotations }, spec });
      if (status !== undefined) {
        await until("a claim that waits for its controller", async () => {
          const codes = (await reasons(preset)).map(([, code]) => code);
          return codes.length === names.length && !codes.includes(undefined);
        });
        const args = ["-n", "shop", "patch", `${KINDS[preset].resource}.${KINDS[preset].group}`, preset];
        await system.kubectl(...args, "--type=merge", "-p", JSON.stringify({ status }));
      }
      for (const name of names) await leadsTo(name, className);
      assert.deepEqual(
        await reasons(preset),
        names.map((name) => [name, undefined]),
      );
    });
  }

  it("that is a Service is read for external-dns's annotation, and for nothing else", async () => {
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
  it("does not fill the controller: names and claims of a namespace are limited", async () => {
    const label = "x".repeat(60);
    const hosts = Array.from({ length: 5_000 }, (_, index) => `n${index}.${label}.${label}.${label}.example.com`);
    await widget("greedy", { hosts }, "hostile");
    let codes: (string | undefined)[] = [];
    const count = (code: string | undefined) => codes.filter((each) => each === code).length;
    await until("the quota to be used up, and one report", async () => {
      const { names } = await (await system.leader()).status();
      codes = names.filter(({ from }) => from.namespace === "hostile").map(({ reason }) => reason?.code);
      return count(undefined) === QUOTA && count("too-many-claims") === 1;
    });
    // The report itself is not one of them.
    assert.ok(codes.length <= CLAIMS_PER_NAME * QUOTA + 1, codes.join());
  });
});
