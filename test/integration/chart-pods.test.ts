import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { OBJECTS } from "../published.ts";
import { COMPONENTS, configOf, NAMESPACE, named, notesOf, podOf, type Rendered, render } from "./rendered.ts";

// Values that change the chart's pods, accounts and notes.

const AGENT = { agent: { enabled: true } };
const ALL = [...COMPONENTS, "agent"] as const;

/** The pod template of a component or of the agents. */
function templateOf(objects: Rendered[], component: string): Rendered {
  if (component !== "agent") return podOf(objects, component);
  return named(objects, "DaemonSet", "switchback-agent").spec.template;
}

describe("a setting of all pods, which one component replaces", () => {
  const one = (name: string) => [{ name, configMap: { name: "ca" } }];
  const CASES: [field: string, all: unknown, own: unknown, read: (template: Rendered) => unknown][] = [
    ["nodeSelector", { pool: "infra" }, { pool: "edge" }, ({ spec }) => spec.nodeSelector],
    ["affinity", { nodeAffinity: {} }, { podAffinity: {} }, ({ spec }) => spec.affinity],
    ["priorityClassName", "a", "b", ({ spec }) => spec.priorityClassName],
    ["dnsPolicy", "None", "Default", ({ spec }) => spec.dnsPolicy],
    ["dnsConfig", { nameservers: ["192.0.2.1"] }, { searches: ["a.example.com"] }, ({ spec }) => spec.dnsConfig],
    [
      "topologySpreadConstraints",
      [{ topologyKey: "a" }],
      [{ topologyKey: "b" }],
      ({ spec }) => spec.topologySpreadConstraints,
    ],
    ["annotations", { a: "1" }, { a: "2" }, ({ metadata }) => ({ a: metadata.annotations.a })],
    ["labels", { a: "1" }, { a: "2" }, ({ metadata }) => ({ a: metadata.labels.a })],
    [
      "extraEnv",
      [{ name: "A", value: "1" }],
      [{ name: "B", value: "2" }],
      ({ spec }) => spec.containers[0].env.slice(-1),
    ],
    ["extraVolumes", one("a"), one("b"), ({ spec }) => spec.volumes.slice(-1)],
    ["extraVolumeMounts", one("a"), one("b"), ({ spec }) => spec.containers[0].volumeMounts.slice(-1)],
  ];
  for (const [field, all, own, read] of CASES) {
    it(field, () => {
      const objects = render({ ...AGENT, pods: { [field]: all }, proxy: { [field]: own } });
      const given = field === "priorityClassName" ? COMPONENTS : ALL;
      for (const component of given)
        assert.deepEqual(read(templateOf(objects, component)), component === "proxy" ? own : all, component);
      assert.notDeepEqual(read(podOf(render(), "proxy")), all);
    });
  }

  it("securityContext and containerSecurityContext: each key replaces one of ours; the agents have their own", () => {
    const ours = podOf(render(), "webhook").spec;
    const group = { runAsUser: 1000660000, fsGroup: 1000660000 };
    const pods = { securityContext: group, containerSecurityContext: { readOnlyRootFilesystem: false } };
    const objects = render({ ...AGENT, pods });
    const { securityContext, containers } = podOf(objects, "webhook").spec;
    const context = { ...ours.containers[0].securityContext, readOnlyRootFilesystem: false };
    assert.deepEqual(
      [securityContext, containers[0].securityContext],
      [{ ...ours.securityContext, ...group }, context],
    );
    const root = { runAsUser: 0, runAsGroup: 0, seccompProfile: { type: "RuntimeDefault" } };
    assert.deepEqual(templateOf(objects, "agent").spec.securityContext, root);
    const hook = named(objects, "Job", "switchback-uninstall").spec.template.spec;
    assert.deepEqual([hook.securityContext, hook.containers[0].securityContext], [securityContext, context]);
  });
});

describe("pods", () => {
  it("run the command of their component with the mounted config, in both profiles", () => {
    const command = (flag: string, component: string) => [
      "node",
      flag,
      "cli/main.js",
      component,
      "--config",
      "/etc/switchback/config.yaml",
    ];
    const flag = "--max-old-space-size=77";
    const [webhook] = podOf(render({ webhook: { nodeFlags: [flag] } }), "webhook").spec.containers;
    assert.deepEqual(webhook.command, command(flag, "webhook"));
    const [all] = podOf(render({ profile: "small", all: { nodeFlags: [flag] } }), "all").spec.containers;
    assert.deepEqual(all.command, command(flag, "all"));
    assert.ok(Number.parseInt(all.resources.requests.memory, 10) <= 128);
  });

  it("get the time to drain: the sleep of preStop, the drains, and a margin", () => {
    const config = { proxy: { drainSeconds: 119.5 } };
    const { terminationGracePeriodSeconds, containers } = podOf(render({ config }), "proxy").spec;
    assert.deepEqual(containers[0].lifecycle, { preStop: { sleep: { seconds: 5 } } });
    assert.equal(terminationGracePeriodSeconds, 5 + 120 + 10);
    const both = podOf(render({ profile: "small" }), "all").spec;
    assert.equal(both.terminationGracePeriodSeconds, 5 + 30 + 10 + 10);
  });

  it("of webhook and proxy are kept by a budget if there are two or more, unless the values say no", () => {
    const budgets = (values: object) =>
      render(values)
        .filter(({ kind }) => kind === "PodDisruptionBudget")
        .map(({ metadata, spec }) => `${metadata.name} ${spec.minAvailable}`);
    assert.deepEqual(budgets({}).toSorted(), ["switchback-proxy 1", "switchback-webhook 1"]);
    assert.deepEqual(budgets({ pods: { podDisruptionBudget: false }, proxy: { podDisruptionBudget: true } }), [
      "switchback-proxy 1",
    ]);
    assert.deepEqual(budgets({ profile: "small" }), []);
    assert.deepEqual(budgets({ profile: "small", all: { replicas: 2 } }), ["switchback-all 1"]);
  });

  it("roll when the config changes, and only then", () => {
    const template = (values: object) => podOf(render(values), "proxy");
    assert.deepEqual(template({}), template({ proxy: { replicas: 5 } }));
    assert.notDeepEqual(template({}), template({ config: { webhook: { healthPort: 9081 } } }));
  });

  it("have the configured ports, and Services keep theirs", () => {
    const config = {
      webhook: { port: 9443, healthPort: 9081 },
      proxy: { healthPort: 9082 },
      controller: { port: 9080 },
    };
    const [before, after] = [render(), render({ config })];
    const ports = COMPONENTS.flatMap((component) => podOf(after, component).spec.containers[0].ports);
    assert.deepEqual(
      ports.map(({ name, containerPort }: Rendered) => [name, containerPort]),
      [
        ["health", 9080],
        ["health", 9081],
        ["https", 9443],
        ["health", 9082],
      ],
    );
    const services = (objects: Rendered[]) => objects.filter(({ kind }) => kind === "Service");
    assert.deepEqual(services(after), services(before));
  });

  for (const profile of ["default", "small"]) {
    const [webhook, proxy] = profile === "small" ? ["all", "all"] : ["webhook", "proxy"];
    it(`of the profile ${profile} mount the targets and the given certificate where the program looks`, () => {
      const values = { profile, config: { certs: { mode: "files" } }, certFiles: { secretName: "mine" } };
      const objects = render(values);
      const { certs } = configOf(objects);
      const pathOf = (component: string, name: string) => {
        const { volumeMounts } = podOf(objects, component).spec.containers[0];
        return volumeMounts.find((mount: Rendered) => mount.name === name)?.mountPath;
      };
      const tls = pathOf(webhook ?? "", "tls");
      assert.deepEqual([certs.certFile, certs.keyFile], [`${tls}/tls.crt`, `${tls}/tls.key`]);
      assert.equal(pathOf(proxy ?? "", "targets"), "/etc/switchback/targets");
      const { volumes } = podOf(objects, proxy ?? "").spec;
      assert.deepEqual(
        volumes.find(({ name }: Rendered) => name === "targets"),
        {
          name: "targets",
          configMap: { name: OBJECTS.targets, optional: true },
        },
      );
    });
  }
});

describe("webhook.hostNetwork", () => {
  it("uses the node's ports and the cluster's DNS, rolls out with a pod on every node, and has no policy", () => {
    const values = { webhook: { hostNetwork: true }, networkPolicy: { enabled: true } };
    const objects = render(values);
    const { hostNetwork, dnsPolicy } = podOf(objects, "webhook").spec;
    assert.deepEqual([hostNetwork, dnsPolicy], [true, "ClusterFirstWithHostNet"]);
    const { strategy } = named(objects, "Deployment", "switchback-webhook").spec;
    assert.deepEqual(strategy.rollingUpdate, { maxUnavailable: 1 });
    assert.equal(named(objects, "Deployment", "switchback-proxy").spec.strategy, undefined);
    // NetworkPolicies do not apply to pods in the host's network.
    assert.equal(named(objects, "NetworkPolicy", "switchback-webhook"), undefined);
    const own = render({ webhook: { hostNetwork: true, dnsPolicy: "Default" } });
    assert.equal(podOf(own, "webhook").spec.dnsPolicy, "Default");
  });
});

describe("serviceAccount", () => {
  const NAMES: Record<string, string> = { controller: "lead", webhook: "admit", proxy: "relay", agent: "node-agent" };
  const account = (name: string) => ({ serviceAccount: { name } });
  const common = { config: { restart: { namespaces: ["shop"] } } };
  const accounts = Object.fromEntries(Object.entries(NAMES).map(([component, name]) => [component, account(name)]));

  /** The names of the accounts that each object refers to. */
  const accountsIn = (objects: Rendered[]): [object: string, accounts: string[]][] =>
    objects.flatMap(({ kind, metadata, ...rest }) => {
      const names = JSON.stringify(rest).matchAll(
        /system:serviceaccount:[\w-]+:([\w-]+)|"kind":"ServiceAccount","name":"([\w-]+)"/g,
      );
      const found = [...names].map(([, user, subject]) => user ?? subject ?? "");
      return found.length === 0 ? [] : [[`${kind} ${metadata.namespace}/${metadata.name}`, found]];
    });

  it("names the account everywhere: pods, RBAC, admission policies", () => {
    const objects = render({ ...common, ...accounts, agent: { enabled: true, ...accounts.agent } });
    for (const component of ALL) {
      const { metadata } = named(objects, "ServiceAccount", NAMES[component] ?? "");
      assert.equal(metadata.namespace, component === "agent" ? "switchback-agent" : NAMESPACE);
      assert.equal(templateOf(objects, component).spec.serviceAccountName, NAMES[component]);
    }
    // Without the values, every object refers to the same accounts by their usual names.
    const usual = accountsIn(render({ ...common, ...AGENT }));
    const renamed = (name: string) => NAMES[name.replace(/^switchback-/, "")] ?? name;
    assert.deepEqual(
      accountsIn(objects),
      usual.map(([object, found]) => [object, found.map(renamed)]),
    );
    assert.ok(usual.length > 10, usual.join());
  });

  it("can be an existing account, with the usual name or another", () => {
    const objects = render({
      webhook: { serviceAccount: { create: false, name: "admit" } },
      proxy: { serviceAccount: { create: false } },
    });
    assert.equal(named(objects, "ServiceAccount", "switchback-proxy"), undefined);
    assert.equal(podOf(objects, "webhook").spec.serviceAccountName, "admit");
    assert.equal(podOf(objects, "proxy").spec.serviceAccountName, "switchback-proxy");
    assert.equal(named(objects, "RoleBinding", "switchback-webhook").subjects[0].name, "admit");
  });
});

describe("profile small", () => {
  const values = { config: { restart: { namespaces: ["shop"] } }, networkPolicy: { enabled: true } };
  const [small, usual] = [render({ ...values, profile: "small" }), render(values)];

  it("has one Deployment with one account, which is in every binding and policy of the controller", () => {
    const deployments = small.filter(({ kind }) => kind === "Deployment");
    assert.deepEqual(
      deployments.map(({ metadata, spec }) => [metadata.name, spec.replicas]),
      [["switchback-all", 1]],
    );
    assert.doesNotMatch(JSON.stringify(small), /serviceaccount:[^']*:switchback-(controller|webhook|proxy)/);
    const bound = small.filter(({ kind }) => /Binding$/.test(kind) && !/Policy/.test(kind));
    const names = bound.flatMap(({ subjects }) => subjects.map(({ name }: Rendered) => name));
    assert.deepEqual([...new Set(names)].sort(), ["switchback-all", "switchback-uninstall"]);
  });

  it("keeps every Service, whose ports lead to the same container ports", () => {
    const numbers = (objects: Rendered[], component: string, pod: string) => {
      const { ports } = podOf(objects, pod).spec.containers[0];
      return named(objects, "Service", `switchback-${component}`).spec.ports.map(({ port, targetPort }: Rendered) => [
        port,
        ports.find(({ name }: Rendered) => name === targetPort)?.containerPort,
      ]);
    };
    for (const component of COMPONENTS)
      assert.deepEqual(numbers(small, component, "all"), numbers(usual, component, component));
  });

  it("has NetworkPolicies whose selectors, also those of peers, select its pod", () => {
    const { labels } = podOf(small, "all").metadata;
    for (const component of COMPONENTS) {
      const { spec } = named(small, "NetworkPolicy", `switchback-${component}`);
      const peers = [...spec.ingress, ...spec.egress].flatMap(({ from = [], to = [] }: Rendered) => [...from, ...to]);
      for (const { podSelector } of [spec, ...peers])
        for (const [key, value] of Object.entries(podSelector?.matchLabels ?? {})) assert.equal(labels[key], value);
    }
  });

  it("has one worker of the relay, unless the values differ", () => {
    assert.equal(configOf(small).proxy.workers, 1);
    assert.equal(configOf(render({ profile: "small", config: { proxy: { workers: 0 } } })).proxy.workers, 0);
  });
});

describe("the notes after an install", () => {
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
