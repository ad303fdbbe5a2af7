import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { COMPONENTS, NAMESPACE, named, notesOf, podOf, type Rendered, render, runHelm } from "./rendered.ts";

// Values that change the chart's pods and accounts. For what holds with any values see chart.test.ts.

const AGENTS = "switchback-agent";
const ALL = [...COMPONENTS, "agent"] as const;
const withAgents = (values: Rendered = {}): Rendered[] =>
  render({ ...values, agent: { enabled: true, ...values.agent } });

/** The pod template of a component or of the agents. */
function templateOf(objects: Rendered[], component: string): Rendered {
  if (component !== "agent") return podOf(objects, component);
  return named(objects, "DaemonSet", "switchback-agent").spec.template;
}

/** Sets a field for all pods, and another value for the proxy's. Returns the pod template of a component. */
function bothWays(field: string, all: unknown, own: unknown): (component: string) => Rendered {
  const objects = withAgents({ pods: { [field]: all }, proxy: { [field]: own } });
  return (component) => templateOf(objects, component);
}

describe("settings of all pods that one component replaces", () => {
  it("dnsPolicy and dnsConfig", () => {
    const policy = bothWays("dnsPolicy", "None", "Default");
    const config = bothWays("dnsConfig", { nameservers: ["192.0.2.1"] }, { nameservers: ["192.0.2.2"] });
    for (const component of ["controller", "webhook", "agent"]) {
      assert.equal(policy(component).spec.dnsPolicy, "None", component);
      assert.deepEqual(config(component).spec.dnsConfig, { nameservers: ["192.0.2.1"] }, component);
    }
    assert.equal(policy("proxy").spec.dnsPolicy, "Default");
    assert.deepEqual(config("proxy").spec.dnsConfig, { nameservers: ["192.0.2.2"] });
    assert.equal("dnsPolicy" in podOf(render(), "proxy").spec, false);
  });

  it("extraEnv, after our own variables", () => {
    const env = bothWays("extraEnv", [{ name: "A", value: "1" }], [{ name: "B", valueFrom: { fieldRef: {} } }]);
    for (const component of ["controller", "webhook", "agent"])
      assert.deepEqual(env(component).spec.containers[0].env.at(-1), { name: "A", value: "1" }, component);
    const { env: own } = env("proxy").spec.containers[0];
    assert.deepEqual([own[0].name, own.at(-1)], ["POD_NAME", { name: "B", valueFrom: { fieldRef: {} } }]);
  });

  it("extraArgs, after the configuration file", () => {
    const args = bothWays("extraArgs", ["--set=log.level=debug"], ["--set=a=<b>&c"]);
    const file = "/etc/switchback/config.yaml";
    for (const component of ["controller", "webhook", "agent"])
      assert.deepEqual(args(component).spec.containers[0].command.slice(-2), [file, "--set=log.level=debug"]);
    assert.deepEqual(args("proxy").spec.containers[0].command.slice(-2), [file, "--set=a=<b>&c"]);
  });

  it("extraVolumes and extraVolumeMounts, beside our own", () => {
    const volume = (name: string) => ({ name, configMap: { name: "corporate-ca" } });
    const mount = (name: string) => ({ name, mountPath: "/etc/ca", readOnly: true });
    const volumes = bothWays("extraVolumes", [volume("ca")], [volume("own")]);
    const mounts = bothWays("extraVolumeMounts", [mount("ca")], [mount("own")]);
    for (const component of ALL) {
      const name = component === "proxy" ? "own" : "ca";
      assert.deepEqual(volumes(component).spec.volumes.at(-1), volume(name), component);
      assert.equal(volumes(component).spec.volumes[0].name, "config");
      assert.deepEqual(mounts(component).spec.containers[0].volumeMounts.at(-1), mount(name), component);
      assert.equal(mounts(component).spec.containers[0].volumeMounts[0].name, "config");
    }
  });

  it("initContainers and extraContainers, beside our own container, which stays the first", () => {
    const one = (name: string) => ({ name, image: name });
    const inits = bothWays("initContainers", [one("wait")], [one("own")]);
    const more = bothWays("extraContainers", [one("sidecar")], [one("own")]);
    for (const component of ALL) {
      const [init, extra] = component === "proxy" ? ["own", "own"] : ["wait", "sidecar"];
      assert.deepEqual(inits(component).spec.initContainers, [one(init)], component);
      const names = more(component).spec.containers.map(({ name }: Rendered) => name);
      assert.deepEqual(names, [component, extra]);
    }
    assert.equal("initContainers" in podOf(render(), "proxy").spec, false);
  });

  it("runtimeClassName and revisionHistoryLimit", () => {
    const runtimes = bothWays("runtimeClassName", "gvisor", "kata");
    const limits = withAgents({ pods: { revisionHistoryLimit: 0 }, proxy: { revisionHistoryLimit: 5 } });
    for (const component of ALL) {
      assert.equal(runtimes(component).spec.runtimeClassName, component === "proxy" ? "kata" : "gvisor");
      const { spec } = named(limits, component === "agent" ? "DaemonSet" : "Deployment", `switchback-${component}`);
      assert.equal(spec.revisionHistoryLimit, component === "proxy" ? 5 : 0);
    }
    assert.equal("runtimeClassName" in podOf(render(), "proxy").spec, false);
  });

  it("securityContext and containerSecurityContext: each key replaces one of ours; the agents have their own", () => {
    const ours = podOf(render(), "webhook").spec;
    const group = { fsGroup: 1000660000, seccompProfile: { type: "Localhost", localhostProfile: "p.json" } };
    const pods = { securityContext: group, containerSecurityContext: { readOnlyRootFilesystem: false } };
    const proxy = { containerSecurityContext: { capabilities: { drop: ["NET_RAW"] } } };
    const agent = { enabled: true, containerSecurityContext: { privileged: true } };
    const objects = render({ pods, proxy, agent });
    const { securityContext, containers } = podOf(objects, "webhook").spec;
    assert.deepEqual(securityContext, { ...ours.securityContext, ...group });
    const restricted = ours.containers[0].securityContext;
    assert.deepEqual(containers[0].securityContext, { ...restricted, readOnlyRootFilesystem: false });
    const own = podOf(objects, "proxy").spec;
    assert.deepEqual(own.securityContext, { ...ours.securityContext, ...group });
    assert.deepEqual(own.containers[0].securityContext, { ...restricted, ...proxy.containerSecurityContext });
    const ofAgent = templateOf(objects, "agent").spec;
    const root = { runAsUser: 0, runAsGroup: 0, seccompProfile: { type: "RuntimeDefault" } };
    assert.deepEqual(ofAgent.securityContext, root);
    assert.deepEqual(ofAgent.containers[0].securityContext, { ...restricted, privileged: true });
    const hook = named(objects, "Job", "switchback-uninstall").spec.template.spec;
    assert.deepEqual(hook.securityContext, securityContext);
    assert.equal(hook.containers[0].securityContext.readOnlyRootFilesystem, false);
  });

  it("podDisruptionBudget, for all components or for one", () => {
    const budgets = (values: object) =>
      render(values)
        .filter(({ kind }) => kind === "PodDisruptionBudget")
        .map(({ metadata }) => metadata.name);
    const all = COMPONENTS.map((component) => `switchback-${component}`);
    assert.deepEqual(budgets({}).toSorted(), all.toSorted());
    assert.deepEqual(budgets({ pods: { podDisruptionBudget: false } }), []);
    const one = { pods: { podDisruptionBudget: false }, proxy: { podDisruptionBudget: true } };
    assert.deepEqual(budgets(one), ["switchback-proxy"]);
  });

  it("the timings of probes; a timing that is left out has its default", () => {
    const all = { liveness: { timeoutSeconds: 10 }, readiness: { initialDelaySeconds: 0 } };
    const probes = bothWays("probes", all, { startup: { failureThreshold: 600 } });
    const { livenessProbe, readinessProbe } = probes("webhook").spec.containers[0];
    const get = (path: string) => ({ httpGet: { path, port: "health" } });
    assert.deepEqual(livenessProbe, { ...get("/healthz"), periodSeconds: 10, timeoutSeconds: 10, failureThreshold: 3 });
    const readiness = { initialDelaySeconds: 0, periodSeconds: 2, timeoutSeconds: 2, failureThreshold: 2 };
    assert.deepEqual(readinessProbe, { ...get("/readyz"), ...readiness });
    assert.equal(probes("agent").spec.containers[0].readinessProbe.periodSeconds, 5);
    const own = probes("proxy").spec.containers[0];
    assert.deepEqual([own.startupProbe.failureThreshold, own.livenessProbe.timeoutSeconds], [600, 5]);
  });

  it("annotations and labels; the keys of other charts mean the same, but ours win", () => {
    const metadata = (values: Rendered, component = "webhook") => templateOf(withAgents(values), component).metadata;
    const words = [
      ["annotations", "podAnnotations"],
      ["labels", "podLabels"],
    ] as const;
    for (const [word, synonym] of words) {
      assert.equal(metadata({ [synonym]: { a: "1" } })[word].a, "1");
      assert.equal(metadata({ [synonym]: { a: "1" } }, "agent")[word].a, "1");
      assert.equal(metadata({ [synonym]: { a: "1" }, pods: { [word]: { a: "2" } } })[word].a, "2");
      assert.equal(metadata({ webhook: { [synonym]: { a: "3" } }, pods: { [word]: { a: "2" } } })[word].a, "3");
      assert.equal(metadata({ webhook: { [synonym]: { a: "3" }, [word]: { a: "4" } } })[word].a, "4");
    }
    assert.deepEqual(Object.keys(metadata({}).annotations), ["checksum/config"]);
    assert.equal(
      metadata({ pods: { labels: { "app.kubernetes.io/name": "x" } } }).labels["app.kubernetes.io/name"],
      "switchback",
    );
  });
});

describe("the notes after an install", () => {
  it("warn about each key of another chart and name ours, and warn about nothing else", () => {
    assert.doesNotMatch(notesOf({ pods: { labels: { a: "1" } } }), /WARNING/);
    const notes = notesOf({ podLabels: { a: "1" }, agent: { podAnnotations: { a: "1" } } });
    assert.deepEqual(notes.match(/^WARNING: .*$/gm), [
      "WARNING: podLabels is another chart's word for pods.labels: please use that.",
      "WARNING: agent.podAnnotations is another chart's word for agent.annotations: please use that.",
    ]);
  });

  it("name the namespaces that opted in by name", () => {
    const notes = notesOf({ config: { optIn: { namespaces: ["cert-manager", "shop"] } } });
    assert.match(notes, /opted in by config\.optIn\.namespaces: cert-manager, shop\.\n/);
    assert.match(notesOf({}), /Nothing changes for a pod until it opts in:\n/);
  });

  it("say how to continue if the hook of an uninstall cannot start", () => {
    assert.match(notesOf({}), new RegExp(`helm uninstall switchback --namespace ${NAMESPACE} --no-hooks\n`));
    assert.doesNotMatch(notesOf({ uninstall: { enabled: false } }), /--no-hooks/);
  });
});

describe("topologySpreadConstraints", () => {
  const spread = (values: object, component: string) => podOf(render(values), component).spec.topologySpreadConstraints;
  const labels = (component: string) => ({
    matchLabels: { "app.kubernetes.io/name": "switchback", "app.kubernetes.io/component": component },
  });

  it("are those of the values, and select the component's pods if they have no selector", () => {
    const constraint = { topologyKey: "rack", maxSkew: 2, whenUnsatisfiable: "DoNotSchedule" };
    const labelSelector = { matchLabels: { app: "all" } };
    const values = { pods: { topologySpreadConstraints: [constraint, { ...constraint, labelSelector }] } };
    assert.deepEqual(spread(values, "proxy"), [
      { ...constraint, labelSelector: labels("proxy") },
      { ...constraint, labelSelector },
    ]);
  });

  it("are absent if the list is empty, for all components or for one, and are soft by default", () => {
    assert.equal(spread({ pods: { topologySpreadConstraints: [] } }, "proxy"), undefined);
    const one = { proxy: { topologySpreadConstraints: [] } };
    assert.deepEqual([spread(one, "proxy"), spread(one, "webhook").length], [undefined, 1]);
    assert.deepEqual(
      spread({}, "webhook").map(({ labelSelector, matchLabelKeys }: Rendered) => [labelSelector, matchLabelKeys]),
      [[labels("webhook"), ["pod-template-hash"]]],
    );
  });

  it("do not change an affinity of the values", () => {
    const affinity = { nodeAffinity: {} };
    const { spec } = podOf(render({ pods: { affinity } }), "proxy");
    assert.deepEqual([spec.affinity, spec.topologySpreadConstraints.length], [affinity, 1]);
  });
});

describe("values of an older chart, as `--reuse-values` keeps them", () => {
  it("render without the values that the older chart did not have", () => {
    const older = [
      "global",
      "config.optIn",
      "podDns",
      "podMonitor",
      "test",
      "agent.updateStrategy",
      "webhook.hostNetwork",
      "webhook.timeoutSeconds",
      "service",
      "installCheck",
      "extraObjects",
      "commonAnnotations",
    ];
    const own = [...ALL.map((name) => `${name}.serviceAccount`), ...COMPONENTS.map((name) => `${name}.strategy`)];
    const containers = ["initContainers", "extraContainers", "securityContext", "containerSecurityContext"];
    const further = ["runtimeClassName", "revisionHistoryLimit", "podDisruptionBudget", ...containers];
    const pods = ["dnsPolicy", "extraEnv", "extraArgs", "extraVolumes", "extraVolumeMounts", "probes", ...further];
    const missing = [...older, ...own, ...pods.map((key) => `pods.${key}`)].map((path) => `${path}=null`).join();
    const values = { agent: { enabled: true }, networkPolicy: { enabled: true }, serviceMonitor: { enabled: true } };
    const accounts = (objects: Rendered[]) =>
      objects.filter(({ kind }) => kind === "ServiceAccount").map(({ metadata }) => metadata.name);
    const expected = render({ ...values, installCheck: { enabled: false } });
    assert.deepEqual(accounts(render(values, ["--set", missing])), accounts(expected));
  });
});

describe("strategies", () => {
  it("of a Deployment and of the DaemonSet are those of the values", () => {
    const rollingUpdate = { maxUnavailable: 1 };
    const objects = withAgents({
      webhook: { strategy: { type: "Recreate" } },
      agent: { updateStrategy: { rollingUpdate } },
    });
    assert.deepEqual(named(objects, "Deployment", "switchback-webhook").spec.strategy, { type: "Recreate" });
    assert.equal(named(objects, "Deployment", "switchback-proxy").spec.strategy.type, "RollingUpdate");
    const { updateStrategy } = named(objects, "DaemonSet", "switchback-agent").spec;
    assert.deepEqual(updateStrategy, { type: "RollingUpdate", rollingUpdate });
  });
});

describe("webhook.hostNetwork", () => {
  const values = (more: object = {}) => ({ webhook: { hostNetwork: true, ...more } });
  const strategyOf = (objects: Rendered[]) => named(objects, "Deployment", "switchback-webhook").spec.strategy;

  it("uses the node's ports and the cluster's DNS, and can be rolled out with a pod on every node", () => {
    const objects = render({ ...values(), config: { webhook: { port: 10260, healthPort: 10261 } } });
    const { hostNetwork, dnsPolicy, containers } = podOf(objects, "webhook").spec;
    assert.deepEqual([hostNetwork, dnsPolicy], [true, "ClusterFirstWithHostNet"]);
    assert.deepEqual(
      containers[0].ports.map(({ containerPort }: Rendered) => containerPort),
      [10261, 10260],
    );
    assert.deepEqual(strategyOf(objects).rollingUpdate, { maxUnavailable: 1, maxSurge: 1 });
    assert.equal(podOf(objects, "proxy").spec.hostNetwork, undefined);
    assert.equal(podOf(render(values({ dnsPolicy: "Default" })), "webhook").spec.dnsPolicy, "Default");
    assert.deepEqual(strategyOf(render(values({ replicas: 1 }))).rollingUpdate, { maxUnavailable: 0, maxSurge: 1 });
  });

  it("has no NetworkPolicy, because none applies to pods in the host's network", () => {
    const objects = render({ ...values(), networkPolicy: { enabled: true } });
    assert.equal(named(objects, "NetworkPolicy", "switchback-webhook"), undefined);
  });

  it("exists only for the webhook", () => {
    assert.match(runHelm({ proxy: { hostNetwork: true } }).stderr, /at '\/proxy': additional properties 'hostNetwork'/);
  });
});

describe("serviceAccount", () => {
  const serviceAccount = (name: string) => ({ serviceAccount: { name, annotations: { "example.com/role": name } } });
  const values = {
    controller: serviceAccount("lead"),
    webhook: serviceAccount("admit"),
    proxy: serviceAccount("relay"),
    agent: serviceAccount("node-agent"),
    flowControl: { enabled: true },
    config: { restart: { namespaces: ["shop"] } },
  };
  const NAMES: Record<string, string> = { controller: "lead", webhook: "admit", proxy: "relay", agent: "node-agent" };

  /** The names of the accounts that each object refers to. */
  const accountsIn = (objects: Rendered[]): [object: string, accounts: string[]][] =>
    objects.flatMap(({ kind, metadata, ...rest }) => {
      const names = JSON.stringify(rest).matchAll(
        /system:serviceaccount:[\w-]+:([\w-]+)|"kind":"ServiceAccount",(?:"serviceAccount":\{)?"name":"([\w-]+)"/g,
      );
      const accounts = [...names].map(([, user, subject]) => user ?? subject ?? "");
      return accounts.length === 0 ? [] : [[`${kind} ${metadata.namespace}/${metadata.name}`, accounts]];
    });

  it("names the account everywhere: pods, RBAC, admission policies, flow control", () => {
    const objects = withAgents(values);
    for (const component of ALL) {
      const account = named(objects, "ServiceAccount", NAMES[component] ?? "");
      assert.equal(account.metadata.namespace, component === "agent" ? AGENTS : NAMESPACE);
      assert.deepEqual(account.metadata.annotations, { "example.com/role": NAMES[component] });
      assert.equal(account.automountServiceAccountToken, false);
      assert.equal(templateOf(objects, component).spec.serviceAccountName, NAMES[component]);
    }
    // Without the values, every object refers to the same accounts by their usual names, so no usual name was left
    // behind here.
    const { flowControl, config } = values;
    const usual = accountsIn(withAgents({ flowControl, config }));
    const renamed = (name: string) => NAMES[name.replace(/^switchback-/, "")] ?? name;
    assert.deepEqual(
      accountsIn(objects),
      usual.map(([object, accounts]) => [object, accounts.map(renamed)]),
    );
    assert.ok(usual.length > 10 && usual.some(([object]) => object.startsWith("FlowSchema")), usual.join());
  });

  it("can be an existing account, with the usual name or another", () => {
    const objects = withAgents({
      webhook: { serviceAccount: { create: false, name: "admit" } },
      proxy: { serviceAccount: { create: false } },
      agent: { serviceAccount: { create: false } },
    });
    const created = objects.filter(({ kind, metadata }) => kind === "ServiceAccount" && !metadata.annotations);
    assert.deepEqual(
      created.map(({ metadata }) => metadata.name),
      ["switchback-controller"],
    );
    assert.equal(podOf(objects, "webhook").spec.serviceAccountName, "admit");
    assert.equal(podOf(objects, "proxy").spec.serviceAccountName, "switchback-proxy");
    assert.equal(named(objects, "RoleBinding", "switchback-webhook").subjects[0].name, "admit");
  });

  it("cannot be the same for two components", () => {
    const { code, stderr } = runHelm({ webhook: serviceAccount("one"), proxy: serviceAccount("one") });
    assert.equal(code, 1);
    assert.match(stderr, /serviceAccount\.name: each component needs an account of its own/);
  });
});
