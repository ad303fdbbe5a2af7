import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parse } from "yaml";
import { configSections } from "#cli/extras.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { COMPONENTS, NAMESPACE, named, podOf, type Rendered, render, runHelm } from "./rendered.ts";

const sections = await configSections();

// `profile: small`: what differs from the default profile, and that nothing else differs.

const SMALL = { profile: "small" };
const ACCOUNT = "switchback-all";
const EVERYTHING = {
  agent: { enabled: true },
  flowControl: { enabled: true },
  networkPolicy: { enabled: true, clients: { health: [{ podSelector: {} }] } },
  serviceMonitor: { enabled: true },
  config: { restart: { namespaces: ["shop"] } },
};
const small = render({ ...EVERYTHING, ...SMALL });
const usual = render(EVERYTHING);
const ofKind = (objects: Rendered[], kind: string): Rendered[] => objects.filter((object) => object.kind === kind);
const names = (objects: Rendered[], kind: string) => ofKind(objects, kind).map(({ metadata }) => metadata.name);

describe("profile small", () => {
  const { spec, metadata } = podOf(small, "all");
  const [container] = spec.containers;
  const labels = metadata.labels as Record<string, string>;
  const isPod = (selector: Record<string, string>) =>
    Object.entries(selector).every(([key, value]) => labels[key] === value);

  function mountedConfig(objects: Rendered[]) {
    const { name } = podOf(objects, "all").spec.volumes[0].configMap;
    return parseConfig(parse(named(objects, "ConfigMap", name).data["config.yaml"]), sections);
  }

  it("has one Deployment with one replica and one account, and with two replicas a budget", () => {
    assert.deepEqual(names(small, "Deployment"), [ACCOUNT]);
    assert.equal(named(small, "Deployment", ACCOUNT).spec.replicas, 1);
    const three = COMPONENTS.map((component) => `switchback-${component}`);
    const others = names(usual, "ServiceAccount").filter((name) => !three.includes(name));
    assert.deepEqual(names(small, "ServiceAccount").sort(), [...others, ACCOUNT].sort());
    assert.equal(spec.serviceAccountName, ACCOUNT);
    assert.deepEqual(names(small, "PodDisruptionBudget"), []);
    assert.deepEqual(names(render({ ...SMALL, all: { replicas: 2 } }), "PodDisruptionBudget"), [ACCOUNT]);
  });

  it("runs `switchback all`, confined and limited like the others, with at most 128Mi and 50m requested", () => {
    assert.deepEqual(container.command.slice(-4), ["cli/main.js", "all", "--config", "/etc/switchback/config.yaml"]);
    const usualPod = podOf(usual, "proxy").spec;
    assert.deepEqual(container.securityContext, usualPod.containers[0].securityContext);
    assert.deepEqual(spec.securityContext, usualPod.securityContext);
    assert.deepEqual([spec.enableServiceLinks, spec.automountServiceAccountToken], [false, true]);
    const { requests, limits } = container.resources;
    assert.ok(Number.parseInt(requests.memory, 10) <= 128 && Number.parseInt(requests.cpu, 10) <= 50);
    assert.deepEqual(Object.keys(limits), ["memory"]);
    for (const probe of ["startupProbe", "livenessProbe", "readinessProbe"]) {
      assert.deepEqual(container[probe], usualPod.containers[0][probe]);
    }
    assert.deepEqual(
      container.volumeMounts.map(({ mountPath }: Rendered) => mountPath),
      ["/etc/switchback/config.yaml", "/etc/switchback/targets"],
    );
  });

  it("gives the pod the time to drain the relay and then the webhook", () => {
    // The sleep of preStop, the drain of the relay, the drain of the webhook, and a margin.
    assert.equal(spec.terminationGracePeriodSeconds, 5 + 30 + 10 + 10);
  });

  it("keeps every Service with its ports; they lead to the same container ports, in the one pod", () => {
    assert.deepEqual(names(small, "Service"), names(usual, "Service"));
    const numbers = (objects: Rendered[], service: Rendered, component: string) => {
      const { ports } = podOf(objects, component).spec.containers[0];
      return service.spec.ports.map(({ name, port, targetPort }: Rendered) => [
        name,
        port,
        ports.find((each: Rendered) => each.name === targetPort)?.containerPort,
      ]);
    };
    for (const component of COMPONENTS) {
      const [now, before] = [small, usual].map((objects) => named(objects, "Service", `switchback-${component}`));
      assert.deepEqual(now.metadata, before.metadata);
      assert.ok(isPod(now.spec.selector));
      assert.deepEqual(numbers(small, now, "all"), numbers(usual, before, component));
    }
    const portNames = container.ports.map(({ name }: Rendered) => name);
    assert.ok(
      portNames.every((name: string) => name.length <= 15 && portNames.indexOf(name) === portNames.lastIndexOf(name)),
    );
  });

  it("has the same rules in all Roles, and binds all of them to the one account", () => {
    for (const kind of ["Role", "ClusterRole"]) assert.deepEqual(ofKind(small, kind), ofKind(usual, kind));
    const subjects = (objects: Rendered[]) =>
      ["RoleBinding", "ClusterRoleBinding"].flatMap((kind) =>
        ofKind(objects, kind).map(({ subjects: bound, roleRef }) => [
          roleRef.name,
          ...bound.map(({ name }: Rendered) => name),
        ]),
      );
    const ours = new RegExp(`^switchback-(${COMPONENTS.join("|")})$`);
    const expected = subjects(usual).map(([role, ...bound]) => [
      role,
      ...bound.map((name: string) => name.replace(ours, ACCOUNT)),
    ]);
    assert.deepEqual(subjects(small), expected);
  });

  it("mentions no account of the default profile anywhere", () => {
    const accounts = ofKind(small, "FlowSchema").flatMap(({ spec: { rules } }) =>
      rules.flatMap(({ subjects }: Rendered) => subjects.map(({ serviceAccount }: Rendered) => serviceAccount.name)),
    );
    assert.deepEqual([...new Set(accounts)].sort(), ["switchback-agent", ACCOUNT]);
    assert.doesNotMatch(JSON.stringify(small), /serviceaccount:[^']*:switchback-(controller|webhook|proxy)/);
  });

  it("has the same admission policies, which know its account and its pods", () => {
    const kind = "ValidatingAdmissionPolicy";
    assert.deepEqual(names(small, kind), names(usual, kind));
    const [account, other] = ["all", "controller"].map(
      (name) => `system:serviceaccount:${NAMESPACE}:switchback-${name}`,
    );
    const selector = (component: string) => `"app.kubernetes.io/component":"${component}"`;
    for (const policy of ofKind(small, kind)) {
      const before = JSON.stringify(named(usual, kind, policy.metadata.name).spec);
      const expected = before
        .replaceAll(other ?? "", account ?? "")
        .replaceAll(JSON.stringify(selector("proxy")).slice(1, -1), JSON.stringify(selector("all")).slice(1, -1));
      assert.equal(JSON.stringify(policy.spec), expected);
    }
  });

  it("has NetworkPolicies whose selectors, also those of peers, select its pod", () => {
    assert.deepEqual(names(small, "NetworkPolicy"), names(usual, "NetworkPolicy"));
    for (const component of COMPONENTS) {
      const { spec: rules } = named(small, "NetworkPolicy", `switchback-${component}`);
      assert.ok(isPod(rules.podSelector.matchLabels));
      const peers = [...rules.ingress, ...rules.egress].flatMap(({ from = [], to = [] }: Rendered) => [...from, ...to]);
      for (const { podSelector } of peers) if (podSelector?.matchLabels) assert.ok(isPod(podSelector.matchLabels));
    }
  });

  it("has front Services that select its pod, and one worker of the relay, unless the values differ", () => {
    const { proxy } = mountedConfig(small);
    assert.ok(isPod(proxy.selector));
    assert.deepEqual([proxy.workers, proxy.engine], [1, "auto"]);
    const own = mountedConfig(
      render({ ...SMALL, config: { proxy: { workers: 0, selector: { app: "relay" } } } }),
    ).proxy;
    assert.deepEqual([own.workers, own.selector], [0, { app: "relay" }]);
  });

  it("mounts the webhook's certificate if it is given", () => {
    const values = { ...SMALL, config: { certs: { mode: "files" } }, certFiles: { secretName: "mine" } };
    const { volumes, containers } = podOf(render(values), "all").spec;
    assert.deepEqual(volumes.at(-1), { name: "tls", secret: { secretName: "mine" } });
    assert.equal(containers[0].volumeMounts.at(-1).mountPath, "/etc/switchback/tls");
  });

  it("changes nothing else", () => {
    const different = ["Deployment", "ServiceAccount", "PodDisruptionBudget", "ConfigMap", "ServiceMonitor"];
    const changed = [
      "Service",
      "RoleBinding",
      "ClusterRoleBinding",
      "ValidatingAdmissionPolicy",
      "NetworkPolicy",
      "FlowSchema",
    ];
    const rest = (objects: Rendered[]) =>
      objects.filter(({ kind }) => ![...different, ...changed].includes(kind)).map(plain);
    assert.deepEqual(rest(small), rest(usual));
    assert.deepEqual(ofKind(small, "ServiceMonitor"), ofKind(usual, "ServiceMonitor"));
  });

  /** The object without the checksum of the configuration, whose content differs. */
  function plain(object: Rendered): unknown {
    return JSON.parse(JSON.stringify(object).replaceAll(/"checksum\/config":"[0-9a-f]{64}"/g, '"checksum/config":""'));
  }

  for (const [values, message] of [
    [{ profile: "tiny" }, /at '\/profile': value must be one of 'default', 'small'/],
    [{ ...SMALL, all: { replicas: 3 } }, /at '\/all\/replicas': maximum: got 3, want 2/],
  ] as const) {
    it(`refuses ${JSON.stringify(values)}, and says where`, () => {
      const { code, stderr } = runHelm(values);
      assert.equal(code, 1);
      assert.match(stderr, message);
    });
  }
});
