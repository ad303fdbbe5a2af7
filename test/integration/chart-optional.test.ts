import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { parse } from "yaml";
import { ALERTS, DASHBOARD } from "./prometheus/prometheus.ts";
import {
  COMPONENTS,
  type Install,
  NAMESPACE,
  named,
  pod,
  type Rendered,
  relayed,
  render,
  rulesOf,
  testInstalls,
} from "./rendered.ts";

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

describe("NetworkPolicies", () => {
  const peer = (name: string) => [{ namespaceSelector: { matchLabels: { name } } }];
  const networkPolicy = {
    enabled: true,
    apiServer: { cidrs: ["192.0.2.1/32"], ports: [6443] },
    dns: { cidrs: ["192.0.2.53/32"] },
    ingressControllers: peer("edge"),
    clients: { webhook: peer("api"), health: peer("prometheus"), proxy: peer("shop") },
  };
  const dnsServers = ["192.0.2.1", "192.0.2.1:5353", "[2001:db8::1]:5354", "[2001:db8::53]"];
  const policiesOf = (policy: object) =>
    render({ networkPolicy, agent: { enabled: true }, config: { targets: [relayed], policy } });
  const toApiServer = "6443 to 192.0.2.1/32";
  const toDns = "UDP 53, 53 to 192.0.2.53/32";

  it("admit only the clients of the values, and the controller on the proxies' health port", () => {
    const allDns = toDns.replace(" to", ", UDP 5353, 5353, UDP 5354, 5354 to");
    const listeners = "15000-24999, 9443 from shop";
    const objects = policiesOf({ dnsServers });
    for (const [component, ...rules] of [
      ["controller", "8080 from prometheus", toApiServer, allDns, "8082 to proxy"],
      ["agent", "8083 from prometheus", toApiServer],
      ["webhook", "8081 from prometheus", "8443 from api", toApiServer],
      ["proxy", "8082 from prometheus", "8082 from controller", listeners, toApiServer, toDns, "1-65535 to edge"],
    ] as const)
      assert.deepEqual(rulesOf(objects, component), rules, component);
  });

  it("let the controller ask no DNS that it does not need", () => {
    const rules = rulesOf(policiesOf({ verifyDns: "off" }), "controller");
    assert.deepEqual(rules, ["8080 from prometheus", toApiServer, "8082 to proxy"]);
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
    const expected = file.slice(1).map(({ annotations, ...rule }: Rendered) => {
      const runbook = `docs/alerts.md#${rule.alert.toLowerCase()}`;
      return { ...rule, annotations: { ...annotations, runbook, runbook_url: `https://git.example.com/s/${runbook}` } };
    });
    assert.deepEqual(spec.groups[0].rules, expected);
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
    const services = render({ ...OPTIONAL, service }).filter(({ kind }) => kind === "Service");
    assert.equal(services.length, 5);
    for (const { metadata, spec } of services) {
      const { ipFamilies, ipFamilyPolicy } = spec;
      assert.deepEqual({ annotations: metadata.annotations, ipFamilies, ipFamilyPolicy }, service, metadata.name);
    }
  });

  it("credentials of the registry, of the chart and its parents, are in every pod once", () => {
    const [own, parents, both] = ["own", "parents", "both"].map((name) => ({ name }));
    const global = { imagePullSecrets: [parents, "both"], other: "a parent's" };
    const pods = render({ ...OPTIONAL, global, imagePullSecrets: [both, own] }).filter(({ spec }) => spec?.template);
    assert.equal(pods.length, COMPONENTS.length + 6);
    for (const { spec } of pods) assert.deepEqual(spec.template.spec.imagePullSecrets, [parents, both, own]);
  });

  const digest = `sha256:${"0a".repeat(32)}`;
  const image = (repository: string, imageRegistry: string, expected: string): Install => [
    `the image ${repository} with global.imageRegistry ${JSON.stringify(imageRegistry)} is ${expected}`,
    { image: { repository, digest }, global: { imageRegistry } },
    { [pod("proxy", "containers 0 image")]: `${expected}@${digest}` },
  ];
  const object = (name: string) => ({ apiVersion: "v1", kind: "ConfigMap", metadata: { name } });
  const issuerRef = { name: "corporate", kind: "ClusterIssuer" };
  testInstalls(
    image("switchback", "", "switchback"),
    image("edge/switchback", "mirror.example.com/a/", "mirror.example.com/a/edge/switchback"),
    image("registry.example.com/edge/switchback", "mirror.example.com", "mirror.example.com/edge/switchback"),
    image("registry:5000/switchback", "localhost:5001", "localhost:5001/switchback"),
    [
      "extraObjects are YAML or text, both with template expressions",
      { extraObjects: [object("{{ .Release.Name }}-a"), "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: b }\n"] },
      { "ConfigMap switchback-a": object("switchback-a"), "ConfigMap b": object("b") },
    ],
    [
      "cert-manager uses the issuer of the values, and the chart then creates none",
      { config: { certs: { mode: "cert-manager" } }, certManager: { issuerRef } },
      {
        "Certificate switchback-webhook spec issuerRef": { group: "cert-manager.io", ...issuerRef },
        "Issuer switchback-ca": undefined,
        "Certificate switchback-ca": undefined,
      },
    ],
  );
});
