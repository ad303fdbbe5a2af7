import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { parse } from "yaml";
import { ALERTS, DASHBOARD } from "./prometheus/prometheus.ts";
import { COMPONENTS, NAMESPACE, named, type Rendered, render, runHelm } from "./rendered.ts";

// ServiceMonitors, the PodMonitor and `helm test`, as the chart renders them.

const AGENTS = "their-own";
const relabelings = [{ action: "replace", targetLabel: "cluster", replacement: "edge-1" }];
const metricRelabelings = [{ action: "drop", sourceLabels: ["__name__"], regex: "nodejs_.*" }];
const scraped = { interval: "10s", scrapeTimeout: "5s", relabelings, metricRelabelings };
const agent = { agent: { enabled: true }, config: { agent: { namespace: AGENTS } } };

describe("ServiceMonitors", () => {
  it("are scraped, and their labels and metrics changed, as the values say", () => {
    const objects = render({ serviceMonitor: { enabled: true, labels: { release: "p" }, ...scraped } });
    for (const component of COMPONENTS) {
      const { metadata, spec } = named(objects, "ServiceMonitor", `switchback-${component}`);
      const port = component === "controller" ? "http" : "metrics";
      assert.deepEqual(spec.endpoints, [{ port, path: "/metrics", ...scraped }]);
      assert.equal(metadata.labels.release, "p");
    }
  });

  it("set only an interval by default", () => {
    const { spec } = named(render({ serviceMonitor: { enabled: true } }), "ServiceMonitor", "switchback-proxy");
    assert.deepEqual(spec.endpoints, [{ port: "metrics", path: "/metrics", interval: "30s" }]);
  });

  it("with an invalid time are refused", () => {
    assert.match(runHelm({ serviceMonitor: { interval: "soon" } }).stderr, /at '\/serviceMonitor\/interval'/);
  });
});

describe("the PodMonitor", () => {
  const monitors = (values: object) => render(values).filter(({ kind }) => kind === "PodMonitor");

  it("selects the agents in their namespace, and scrapes a port that they have", () => {
    const objects = render({ ...agent, podMonitor: { enabled: true, labels: { release: "p" }, ...scraped } });
    const { metadata, spec } = named(objects, "PodMonitor", "switchback-agent");
    assert.deepEqual([metadata.namespace, metadata.labels.release], [NAMESPACE, "p"]);
    assert.deepEqual(spec.namespaceSelector, { matchNames: [AGENTS] });
    const { template, selector } = named(objects, "DaemonSet", "switchback-agent").spec;
    assert.deepEqual(spec.selector, selector);
    assert.deepEqual(spec.podMetricsEndpoints, [{ port: "health", path: "/metrics", ...scraped }]);
    assert.equal(template.spec.containers[0].ports[0].name, "health");
  });

  it("is rendered only if it is enabled and there are agents", () => {
    assert.equal(monitors({ ...agent, podMonitor: { enabled: true } }).length, 1);
    assert.deepEqual([...monitors(agent), ...monitors({ podMonitor: { enabled: true } })], []);
  });
});

describe("the PrometheusRule", () => {
  const rendered = (values: object) =>
    render({ prometheusRule: { enabled: true, ...values } }).find(({ kind }) => kind === "PrometheusRule");
  const file = parse(readFileSync(ALERTS, "utf8"));
  const names = file.groups[0].rules.map(({ alert }: Rendered) => alert);

  it("has the alerts of the file, each with its section of docs/alerts.md", () => {
    const { metadata, spec } = rendered({ labels: { release: "p" }, runbooks: "https://git.example.com/s/" });
    assert.equal(metadata.labels.release, "p");
    for (const [index, { annotations, ...rule }] of spec.groups[0].rules.entries()) {
      const { annotations: own, ...expected } = file.groups[0].rules[index];
      assert.deepEqual(rule, expected);
      const page = `docs/alerts.md#${rule.alert.toLowerCase()}`;
      assert.deepEqual(annotations, { ...own, runbook: page, runbook_url: `https://git.example.com/s/${page}` });
    }
    assert.equal(rendered({}).spec.groups[0].rules[0].annotations.runbook_url, undefined);
  });

  it("leaves out alerts that the values name, sets the values' labels, and refuses names of unknown alerts", () => {
    const { rules } = rendered({ disabled: [names[0]], ruleLabels: { team: "edge", severity: "page" } }).spec.groups[0];
    assert.deepEqual(
      rules.map(({ alert }: Rendered) => alert),
      names.slice(1),
    );
    for (const { labels } of rules) assert.deepEqual(labels, { team: "edge", severity: "page" });
    const { stderr } = runHelm({ prometheusRule: { enabled: true, disabled: ["Nothing"] } });
    assert.match(stderr, /there is no alert Nothing; there are SwitchbackWebhookNotAnswering/);
  });

  it("and the Grafana dashboard are off by default", () => {
    const kinds = render({}).map(({ kind, metadata }) => `${kind} ${metadata.name}`);
    assert.ok(!kinds.some((each) => /PrometheusRule|grafana/.test(each)));
  });
});

it("the Grafana dashboard is the file, in a ConfigMap that the sidecar finds", () => {
  const values = { enabled: true, annotations: { grafana_folder: "Networking" } };
  const { metadata, data } = named(render({ grafanaDashboard: values }), "ConfigMap", "switchback-grafana-dashboard");
  assert.deepEqual([metadata.labels.grafana_dashboard, metadata.annotations], ["1", values.annotations]);
  assert.deepEqual(JSON.parse(data["switchback.json"]), JSON.parse(readFileSync(DASHBOARD, "utf8")));
});

describe("helm test", () => {
  const hooksOf = (values: object) =>
    render(values).filter(({ metadata }) => metadata.annotations?.["helm.sh/hook"] === "test");
  const podOf = (objects: Rendered[]) => objects.find(({ kind }) => kind === "Pod");
  const bindings = (values: object) =>
    hooksOf(values)
      .filter(({ kind }) => kind.endsWith("Binding"))
      .map(({ metadata, roleRef }) => `${metadata.namespace ?? "everywhere"} ${roleRef.kind}/${roleRef.name}`);
  const always = ["everywhere ClusterRole/switchback-doctor", `${NAMESPACE} Role/switchback-doctor`];

  it("runs the doctor in a pod of the image after creating its account and rights, and leaves nothing", () => {
    const objects = hooksOf({ image: { repository: "registry.example.com/s", tag: "1" } });
    const pod = podOf(objects);
    assert.equal(pod.spec.containers[0].image, "registry.example.com/s:1");
    assert.deepEqual(pod.spec.containers[0].command, ["node", "cli/main.js", "doctor", "--namespace", NAMESPACE]);
    assert.equal(pod.spec.serviceAccountName, named(objects, "ServiceAccount", "switchback-test").metadata.name);
    const weight = ({ metadata }: Rendered) => Number(metadata.annotations["helm.sh/hook-weight"]);
    for (const object of objects) {
      assert.ok(object === pod || weight(object) < weight(pod), object.kind);
      assert.match(object.metadata.annotations["helm.sh/hook-delete-policy"], /hook-succeeded/);
    }
    assert.match(pod.metadata.annotations["helm.sh/hook-output-log-policy"], /hook-failed/);
  });

  it("has the doctor's Roles, also for the agents, and creates pods only in the namespace of the values", () => {
    assert.deepEqual(bindings({}), always);
    assert.deepEqual(bindings(agent), [...always, `${AGENTS} Role/switchback-doctor`].toSorted());
    const probing = { test: { probeNamespace: "probes" } };
    assert.deepEqual(bindings(probing), [...always, "probes ClusterRole/switchback-doctor-probe"]);
    const { command } = podOf(hooksOf(probing)).spec.containers[0];
    assert.deepEqual(command.slice(-3), ["--probe", "--probe-namespace", "probes"]);
  });

  it("and the hooks of an install and an uninstall have the annotations, labels and DNS of all pods", () => {
    const dnsConfig = { nameservers: ["192.0.2.1"] };
    const annotations = { "sidecar.istio.io/inject": "false" };
    const values = { pods: { annotations, labels: { team: "edge" }, dnsPolicy: "None", dnsConfig } };
    const objects = render(values);
    const templates = ["switchback-install-check", "switchback-uninstall", "switchback-remains"].map((name) =>
      named(objects, "Job", name),
    );
    for (const { metadata, spec } of [podOf(objects), ...templates.map((job) => job.spec.template)]) {
      assert.equal(metadata.annotations["sidecar.istio.io/inject"], "false");
      assert.equal(metadata.labels.team, "edge");
      assert.deepEqual([spec.dnsPolicy, spec.dnsConfig], ["None", dnsConfig]);
    }
  });

  it("may connect only to the API server if NetworkPolicies are on", () => {
    const objects = hooksOf({ networkPolicy: { enabled: true, apiServer: { ports: [6443] } } });
    const { spec } = named(objects, "NetworkPolicy", "switchback-test");
    assert.deepEqual(spec.egress, [{ ports: [{ protocol: "TCP", port: 6443 }] }]);
    const { labels } = podOf(objects).metadata;
    for (const [label, value] of Object.entries(spec.podSelector.matchLabels)) assert.equal(labels[label], value);
  });
});
