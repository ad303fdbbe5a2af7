import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { parse } from "yaml";
import { listenersOf } from "#lib/documents/listeners.ts";
import { ALERTS, DASHBOARD } from "./prometheus/prometheus.ts";
import { COMPONENTS, configOf, host, NAMESPACE, named, podOf, type Rendered, relayed, render } from "./rendered.ts";

// Objects that the chart renders only if the values ask for them, and values of all objects.

const AGENTS = "their-own";
const OPTIONAL = {
  agent: { enabled: true },
  podDns: { enabled: true, image: "registry.example.com/coredns:1" },
  networkPolicy: { enabled: true },
  serviceMonitor: { enabled: true, namespace: "monitoring", labels: { release: "p" } },
  prometheusRule: { enabled: true },
  grafanaDashboard: { enabled: true, annotations: { folder: "ours" } },
  config: { agent: { namespace: AGENTS }, publishers: { coredns: { enabled: true } } },
};
const optional = render(OPTIONAL);
const ofKind = (objects: Rendered[], kind: string) => objects.filter((object) => object.kind === kind);

it("nothing of this is in the default install", () => {
  const kinds = ["NetworkPolicy", "ServiceMonitor", "PodMonitor", "PrometheusRule", "DaemonSet"];
  const names = new Set(ofKind(optional, "ValidatingAdmissionPolicy").map(({ metadata }) => metadata.name));
  for (const { kind, metadata } of render()) {
    assert.ok(!kinds.includes(kind), kind);
    if (kind === "ValidatingAdmissionPolicy") names.delete(metadata.name);
  }
  assert.deepEqual([...names].sort(), [
    "switchback-agent-leases",
    "switchback-agent-leaving",
    "switchback-publisher-coredns",
    "switchback-uninstall-publishers",
  ]);
});

describe("NetworkPolicies", () => {
  const api = { ports: [{ protocol: "TCP", port: 6443 }], to: [{ ipBlock: { cidr: "192.0.2.1/32" } }] };
  const ingressControllers = [{ namespaceSelector: { matchLabels: { edge: "true" } } }];
  const [webhook, health, proxy] = ["a", "b", "c"].map((name) => [{ namespaceSelector: { matchLabels: { name } } }]);
  const networkPolicy = {
    enabled: true,
    apiServer: { cidrs: ["192.0.2.1/32"], ports: [6443] },
    dns: { cidrs: ["192.0.2.53/32"] },
    ingressControllers,
    clients: { webhook, health, proxy },
  };
  const objects = render({ networkPolicy, agent: { enabled: true }, config: { targets: [relayed] } });
  const selector = (component: string) => ({
    podSelector: {
      matchLabels: { "app.kubernetes.io/name": "switchback", "app.kubernetes.io/component": component },
    },
  });
  const specOf = (name: string) => named(objects, "NetworkPolicy", `switchback-${name}`).spec;

  it("limit each component, also agents and hooks, to the peers that it connects to", () => {
    const ports = ["UDP", "TCP"].map((protocol) => ({ protocol, port: 53 }));
    const dns = { ports, to: [{ ipBlock: { cidr: "192.0.2.53/32" } }] };
    const any = [{ protocol: "TCP", port: 1, endPort: 65535 }];
    const egress: Readonly<Record<string, object[]>> = {
      controller: [api, dns, { ports: [{ protocol: "TCP", port: 8082 }], to: [selector("proxy")] }],
      webhook: [api],
      proxy: [api, dns, { ports: any, to: ingressControllers }],
      agent: [api],
      uninstall: [api],
      "install-check": [api],
    };
    for (const [component, expected] of Object.entries(egress)) {
      const { podSelector, policyTypes, egress } = specOf(component);
      assert.deepEqual(
        { podSelector, policyTypes, egress },
        {
          ...selector(component),
          policyTypes: ["Ingress", "Egress"],
          egress: expected,
        },
      );
    }
    assert.equal(specOf("uninstall").ingress, undefined);
  });

  it("admit only the clients of the values, and the controller on the proxies' health port", () => {
    const ingressOf = (component: string) =>
      specOf(component).ingress.map(({ ports, from }: Rendered) => [ports.map(({ port }: Rendered) => port), from]);
    assert.deepEqual(ingressOf("controller"), [[[8080], health]]);
    assert.deepEqual(ingressOf("agent"), [[[8083], health]]);
    assert.deepEqual(ingressOf("webhook"), [
      [[8081], health],
      [[8443], webhook],
    ]);
    assert.deepEqual(ingressOf("proxy"), [
      [[8082], health],
      [[8082], [selector("controller")]],
      [[15000, 9443], proxy],
    ]);
  });

  it("allow every port that the proxy listens on, from anywhere if no clients are given", () => {
    const values = { networkPolicy: { enabled: true }, config: { targets: [relayed, host("b", { port: 80 })] } };
    const all = render(values);
    const { ingress } = named(all, "NetworkPolicy", "switchback-proxy").spec;
    const isOpen = (port: number) =>
      ingress.some(({ ports, from }: Rendered) =>
        ports.some((range: Rendered) => !from && range.port <= port && port <= (range.endPort ?? range.port)),
      );
    const { targets, proxy: settings } = configOf(all);
    const bound = [...listenersOf(targets).map(({ listenPort }) => listenPort), settings.healthPort];
    assert.deepEqual([...bound.map(isOpen), isOpen(22)], [true, true, true, false]);
  });

  it("of the controller allow the DNS servers that it asks, or none", () => {
    const dnsServers = ["192.0.2.1", "192.0.2.1:5353", "[2001:db8::1]:5354", "[2001:db8::53]"];
    const portsOf = (policy: object, ...flags: string[]) =>
      named(render({ networkPolicy, config: { policy } }, flags), "NetworkPolicy", "switchback-controller")
        .spec.egress.slice(1, -1)
        .flatMap(({ ports }: Rendered) => ports.map(({ port }: Rendered) => port));
    assert.deepEqual(portsOf({ dnsServers }), [53, 53, 5353, 5353, 5354, 5354]);
    assert.deepEqual(portsOf({}, "--set", "config.policy.verifyDns=off"), []);
  });
});

describe("monitoring", () => {
  it("scrapes a port that each pod has, in its namespace, as the values say", () => {
    const relabelings = [{ action: "replace", targetLabel: "cluster", replacement: "edge-1" }];
    const values = { ...OPTIONAL, serviceMonitor: { ...OPTIONAL.serviceMonitor, interval: "10s", relabelings } };
    const monitors = render(values).filter(({ kind }) => /Monitor$/.test(kind));
    assert.deepEqual(monitors.map(({ metadata }) => metadata.name).sort(), [
      "switchback-agent",
      ...["controller", "dns", "proxy", "publisher-coredns", "webhook"].map((name) => `switchback-${name}`),
    ]);
    for (const { metadata, spec } of monitors) {
      assert.deepEqual([metadata.namespace, metadata.labels.release], ["monitoring", "p"]);
      const where = metadata.name === "switchback-agent" ? AGENTS : NAMESPACE;
      assert.deepEqual(spec.namespaceSelector, { matchNames: [where] });
      for (const { port, ...scrape } of spec.endpoints ?? spec.podMetricsEndpoints) {
        assert.deepEqual(scrape, { path: "/metrics", interval: "10s", relabelings });
        const service = named(optional, "Service", metadata.name);
        if (service) assert.ok(service.spec.ports.some(({ name }: Rendered) => name === port));
      }
    }
  });

  it("has the alerts of the file, each with its section of docs/alerts.md, except those that the values name", () => {
    const [{ rules: file }] = parse(readFileSync(ALERTS, "utf8")).groups;
    const values = { enabled: true, runbooks: "https://git.example.com/s/", disabled: [file[0].alert] };
    const { spec } = named(render({ prometheusRule: values }), "PrometheusRule", "switchback");
    assert.deepEqual(
      spec.groups[0].rules,
      file.slice(1).map(({ annotations, ...rule }: Rendered) => {
        const runbook = `docs/alerts.md#${rule.alert.toLowerCase()}`;
        return {
          ...rule,
          annotations: { ...annotations, runbook, runbook_url: `https://git.example.com/s/${runbook}` },
        };
      }),
    );
  });

  it("has the dashboard of the file, in a ConfigMap that Grafana's sidecar finds", () => {
    const { metadata, data } = named(optional, "ConfigMap", "switchback-grafana-dashboard");
    assert.deepEqual([metadata.labels.grafana_dashboard, metadata.annotations], ["1", { folder: "ours" }]);
    assert.deepEqual(JSON.parse(data["switchback.json"]), JSON.parse(readFileSync(DASHBOARD, "utf8")));
  });
});

describe("settings of all objects", () => {
  it("commonAnnotations are on every object, and do not replace ours", () => {
    const commonAnnotations = { team: "edge", folder: "theirs", "helm.sh/hook-weight": "9" };
    for (const [index, { metadata }] of render({ ...OPTIONAL, commonAnnotations }).entries())
      assert.deepEqual(metadata.annotations, { ...commonAnnotations, ...optional[index]?.metadata.annotations });
  });

  it("the Services of the chart have the annotations and IP families of the values", () => {
    const service = { annotations: { a: "b" }, ipFamilies: ["IPv6", "IPv4"], ipFamilyPolicy: "RequireDualStack" };
    const services = ofKind(render({ ...OPTIONAL, service }), "Service");
    assert.equal(services.length, 5);
    for (const { metadata, spec } of services) {
      const { ipFamilies, ipFamilyPolicy } = spec;
      assert.deepEqual({ annotations: metadata.annotations, ipFamilies, ipFamilyPolicy }, service, metadata.name);
    }
  });

  it("extraObjects are YAML or text, both with template expressions", () => {
    const object = (name: string) => ({ apiVersion: "v1", kind: "ConfigMap", metadata: { name } });
    const extraObjects = [object("{{ .Release.Name }}-a"), "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: b }\n"];
    const objects = render({ extraObjects });
    for (const name of ["switchback-a", "b"]) assert.deepEqual(named(objects, "ConfigMap", name), object(name));
  });

  it("credentials of the registry, of the chart and its parents, are in every pod once", () => {
    const [own, parents, both] = ["own", "parents", "both"].map((name) => ({ name }));
    const global = { imagePullSecrets: [parents, "both"], other: "a parent's" };
    const pods = render({ ...OPTIONAL, global, imagePullSecrets: [both, own] }).filter(({ spec }) => spec?.template);
    assert.equal(pods.length, COMPONENTS.length + 6);
    for (const { spec } of pods) assert.deepEqual(spec.template.spec.imagePullSecrets, [parents, both, own]);
  });

  for (const [repository, imageRegistry, expected] of [
    ["switchback", "", "switchback"],
    ["edge/switchback", "mirror.example.com/a/", "mirror.example.com/a/edge/switchback"],
    ["registry.example.com/edge/switchback", "mirror.example.com", "mirror.example.com/edge/switchback"],
    ["registry:5000/switchback", "localhost:5001", "localhost:5001/switchback"],
  ] as const) {
    it(`the image ${repository} with global.imageRegistry ${JSON.stringify(imageRegistry)} is ${expected}`, () => {
      const digest = `sha256:${"0a".repeat(32)}`;
      const objects = render({ image: { repository, digest }, global: { imageRegistry } });
      assert.equal(podOf(objects, "proxy").spec.containers[0].image, `${expected}@${digest}`);
    });
  }
});
