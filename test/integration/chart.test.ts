import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { before, describe, it } from "node:test";
import { OBJECTS } from "../published.ts";
import {
  COMPONENTS,
  configOf,
  direct,
  host,
  NAMESPACE,
  named,
  podOf,
  type Rendered,
  relayed,
  render,
  runHelm,
} from "./rendered.ts";

// What holds for every object with any values, and what each value does. For admission, RBAC and certificates see
// chart-rights.test.ts.

const deployments = (objects: Rendered[]): Rendered[] => objects.filter(({ kind }) => kind === "Deployment");

const COMBINATIONS: Record<string, object> = {
  defaults: {},
  "cert-manager": { config: { certs: { mode: "cert-manager" } } },
  "certificate files": { config: { certs: { mode: "files" } }, certFiles: { secretName: "mine", caBundle: "PEM" } },
  "a target without a relay": { config: { targets: [direct] } },
  "several targets": { config: { targets: [relayed, direct] } },
  "no targets": { config: { targets: [] } },
  "no Ingresses": { config: { sources: { ingress: { enabled: false } } } },
  "one replica": { controller: { replicas: 1 }, webhook: { replicas: 1 }, proxy: { replicas: 1 } },
  "everything optional": {
    networkPolicy: { enabled: true },
    serviceMonitor: { enabled: true, labels: { release: "prometheus" } },
    commonLabels: { team: "edge" },
    imagePullSecrets: [{ name: "registry" }],
    pods: { priorityClassName: "system-cluster-critical", runAsUser: null, preStopSleepSeconds: 0 },
    global: { fromAParent: true },
    enabled: true,
  },
};

const POLICY = "ValidatingAdmissionPolicy";
const BINDING = "ValidatingAdmissionPolicyBinding";
const CLUSTER_SCOPED = ["ClusterRole", "ClusterRoleBinding", "MutatingWebhookConfiguration", POLICY, BINDING];

for (const [title, values] of Object.entries(COMBINATIONS)) {
  describe(`with ${title}`, () => {
    let objects: Rendered[];
    before(() => {
      objects = render(values);
    });

    it("every object has our prefix, our labels and the release's namespace, and exists once", () => {
      const ids = objects.map(({ kind, metadata }) => `${kind}/${metadata.name}`);
      assert.deepEqual(ids, [...new Set(ids)]);
      for (const { kind, metadata } of objects) {
        assert.match(metadata.name, /^switchback-/);
        assert.equal(metadata.labels["app.kubernetes.io/name"], "switchback", metadata.name);
        const isOfCheck = metadata.name === "switchback-install-check" && /^Role/.test(kind);
        const namespace = CLUSTER_SCOPED.includes(kind) ? undefined : NAMESPACE;
        assert.equal(metadata.namespace, isOfCheck ? "default" : namespace, metadata.name);
      }
    });

    it("every container is restricted, has only a memory limit, and is probed", () => {
      assert.equal(deployments(objects).length, COMPONENTS.length);
      for (const component of COMPONENTS) {
        const { spec } = podOf(objects, component);
        const [container, ...others] = spec.containers;
        assert.deepEqual(others, []);
        assert.equal(spec.securityContext.runAsNonRoot, true);
        assert.deepEqual(spec.securityContext.seccompProfile, { type: "RuntimeDefault" });
        assert.deepEqual(container.securityContext, {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        });
        assert.deepEqual(Object.keys(container.resources.limits), ["memory"]);
        assert.deepEqual(Object.keys(container.resources.requests).toSorted(), ["cpu", "memory"]);
        assert.deepEqual(container.startupProbe.httpGet, { path: "/healthz", port: "health" });
        assert.deepEqual(container.livenessProbe.httpGet, { path: "/healthz", port: "health" });
        assert.deepEqual(container.readinessProbe.httpGet, { path: "/readyz", port: "health" });
      }
    });

    it("pods get no service links, and ask for their token themselves", () => {
      for (const component of COMPONENTS) {
        const { spec } = podOf(objects, component);
        assert.equal(spec.enableServiceLinks, false);
        assert.equal(spec.automountServiceAccountToken, true);
        assert.equal(spec.serviceAccountName, `switchback-${component}`);
        assert.equal(named(objects, "ServiceAccount", `switchback-${component}`).automountServiceAccountToken, false);
      }
    });

    it("the mounted config passes the schema, in the release's namespace", () => {
      assert.equal(configOf(objects).namespace, NAMESPACE);
    });

    it("the selectors of Deployments, Services and front Services find the pods", () => {
      const { selector: frontSelector } = configOf(objects).proxy;
      assert.ok(isSubset(frontSelector, podOf(objects, "proxy").metadata.labels));
      for (const component of COMPONENTS) {
        const name = `switchback-${component}`;
        const { labels } = podOf(objects, component).metadata;
        const selectors = [
          named(objects, "Deployment", name).spec.selector.matchLabels,
          named(objects, "Service", name).spec.selector,
        ];
        for (const selector of selectors) {
          assert.ok(isSubset(selector, labels));
          const others = COMPONENTS.filter((other) => isSubset(selector, podOf(objects, other).metadata.labels));
          assert.deepEqual(others, [component]);
        }
      }
    });

    it("a right to write names its objects, except for Events, front Services of found targets and probe pods", () => {
      const { enabled: discovery } = configOf(objects).discovery;
      for (const { rules, metadata } of objects.filter(({ kind }) => kind === "Role" || kind === "ClusterRole")) {
        for (const rule of rules as Rendered[]) {
          const reads = rule.verbs.every((verb: string) => ["get", "list", "watch"].includes(verb));
          const makesEvents = rule.resources[0] === "events" && rule.verbs.join() === "create";
          // The controller creates them in our own namespace, for Services whose names nobody knows at install time.
          const keepsFronts = discovery && rule.resources.join() === "services" && metadata.namespace === NAMESPACE;
          // Its policy allows only dry runs.
          const checks = metadata.name === "switchback-install-check" && rule.verbs.join() === "create";
          // The chart binds it to nobody; the probe pods of different people have different names.
          const probes = metadata.name === "switchback-doctor-probe" && /^pods(\/log)?$/.test(rule.resources.join());
          assert.ok(
            reads || makesEvents || keepsFronts || checks || probes || rule.resourceNames?.length > 0,
            `${metadata.name}: ${JSON.stringify(rule)}`,
          );
          assert.ok(!rule.verbs.includes("*") && !rule.resources.includes("*") && !rule.apiGroups.includes("*"));
          if (rule.resources.includes("secrets")) assert.ok(rule.resourceNames?.length > 0, "no list of all Secrets");
        }
      }
    });
  });
}

function isSubset(part: Record<string, string>, whole: Record<string, string>): boolean {
  return Object.entries(part).every(([key, value]) => whole[key] === value);
}

describe("values", () => {
  const REFUSED: [object, RegExp][] = [
    [{ webhook: { timeoutSeconds: 0 } }, /at '\/webhook\/timeoutSeconds': minimum: got 0, want 1/],
    [{ service: { ipFamilyPolicy: "Dual" } }, /at '\/service\/ipFamilyPolicy'/],
    [{ service: { ipFamilies: ["IPv5"] } }, /at '\/service\/ipFamilies\/0'/],
    [{ proxy: { securityContext: "x" } }, /at '\/proxy\/securityContext': got string, want object/],
    [{ pods: { podDisruptionBudget: "never" } }, /at '\/pods\/podDisruptionBudget': got string, want boolean/],
    [{ pods: { extraContainers: [{ image: "x" }] } }, /at '\/pods\/extraContainers\/0': missing property 'name'/],
    [{ extraObjects: {} }, /at '\/extraObjects': got object, want array/],
    [{ commonAnnotations: { a: 1 } }, /at '\/commonAnnotations\/a': got number, want string/],
    [{ serviceMonitor: { namespace: "a b" } }, /at '\/serviceMonitor\/namespace'/],
    [{ images: {} }, /at '': additional properties 'images' not allowed/],
    [{ global: { imagePullSecrets: "x" } }, /at '\/global\/imagePullSecrets': got string, want array/],
    [{ proxy: { replica: 3 } }, /at '\/proxy': additional properties 'replica' not allowed/],
    [{ agent: { serviceAccount: { nam: "x" } } }, /at '\/agent\/serviceAccount': additional properties 'nam'/],
    [{ pods: { probes: { live: {} } } }, /at '\/pods\/probes': additional properties 'live' not allowed/],
    [{ podAnnotation: {} }, /at '': additional properties 'podAnnotation' not allowed/],
    [{ webhook: { extraEnv: [{ value: "x" }] } }, /at '\/webhook\/extraEnv\/0': missing property 'name'/],
    [{ proxy: { replicas: 0 } }, /at '\/proxy\/replicas': minimum: got 0, want 1/],
    [{ image: { digest: "sha256:12" } }, /at '\/image\/digest'/],
    [{ config: { proxy: { engin: "portable" } } }, /at '\/config\/proxy': additional properties 'engin' not allowed/],
    [{ config: { namespace: "other" } }, /at '\/config': additional properties 'namespace' not allowed/],
    [{ config: { certs: { mode: "none" } } }, /at '\/config\/certs\/mode'/],
    [{ config: { targets: [{ ...relayed, port: 80 }] } }, /at '\/config\/targets\/0': additional properties 'port'/],
    [{ config: { targets: [host("webhook", { port: 80 })] } }, /at '\/config\/targets\/0\/name'/],
    [
      { config: { targets: [host("a", { port: 80, protocol: "v3" })] } },
      /at '\/config\/targets\/0\/ports\/0\/protocol'/,
    ],
    [{ installCheck: { namespace: "kube-system" } }, /installCheck\.namespace: pods of kube-system are never sent to/],
    [{ config: { certs: { mode: "files" } } }, /certFiles\.secretName: required/],
  ];
  for (const [values, message] of REFUSED) {
    it(`refuses ${JSON.stringify(values)}, and says where`, () => {
      const { code, stderr } = runHelm(values);
      assert.equal(code, 1);
      assert.match(stderr, message);
    });
  }

  it("reach the config file unchanged, large numbers and glob patterns too", () => {
    const config = {
      webhook: { maxBodyBytes: 123_456_789 },
      policy: { allowDomains: ["*.example.com", "*"] },
      map: { vanishSeconds: 0.5 },
    };
    const { webhook, policy, map } = configOf(render({ config }));
    assert.equal(webhook.maxBodyBytes, 123_456_789);
    assert.deepEqual(policy.allowDomains, ["*.example.com", "*"]);
    assert.equal(map.vanishSeconds, 0.5);
  });

  it("pin the image by digest", () => {
    const digest = `sha256:${"0a".repeat(32)}`;
    const [deployment] = deployments(render({ image: { repository: "registry.example.com/switchback", digest } }));
    assert.equal(deployment.spec.template.spec.containers[0].image, `registry.example.com/switchback@${digest}`);
  });

  it("place all pods, and the pods of one Deployment differently", () => {
    const all = { nodeSelector: { pool: "infra" }, tolerations: [{ operator: "Exists" }], annotations: { all: "1" } };
    const objects = render({ pods: all, proxy: { nodeSelector: { pool: "edge" }, annotations: { own: "1" } } });
    assert.deepEqual(podOf(objects, "webhook").spec.nodeSelector, { pool: "infra" });
    assert.deepEqual(podOf(objects, "proxy").spec.nodeSelector, { pool: "edge" });
    assert.deepEqual(podOf(objects, "proxy").spec.tolerations, [{ operator: "Exists" }]);
    assert.equal(podOf(objects, "webhook").metadata.annotations.all, "1");
    assert.equal(podOf(objects, "proxy").metadata.annotations.own, "1");
  });

  it("move the ports of containers and probes, but not of Services", () => {
    const config = {
      webhook: { port: 9443, healthPort: 9081 },
      proxy: { healthPort: 9082 },
      controller: { port: 9080 },
    };
    const [before, after] = [render(), render({ config })];
    assert.deepEqual(podOf(after, "webhook").spec.containers[0].ports, [
      { name: "health", containerPort: 9081 },
      { name: "https", containerPort: 9443 },
    ]);
    assert.deepEqual(podOf(after, "proxy").spec.containers[0].ports, [{ name: "health", containerPort: 9082 }]);
    const services = (objects: Rendered[]) => objects.filter(({ kind }) => kind === "Service");
    assert.deepEqual(services(after), services(before));
  });

  it("leave the user to the platform if runAsUser is null", () => {
    const { securityContext } = podOf(render({ pods: { runAsUser: null } }), "proxy").spec;
    assert.deepEqual(Object.keys(securityContext).toSorted(), ["runAsNonRoot", "seccompProfile"]);
    assert.equal(podOf(render(), "proxy").spec.securityContext.runAsUser, 65532);
  });
});

describe("pods", () => {
  it("run the command of their component with the mounted config", () => {
    const objects = render({ webhook: { nodeFlags: ["--max-old-space-size=77"] } });
    const config = "/etc/switchback/config.yaml";
    const { command, volumeMounts } = podOf(objects, "webhook").spec.containers[0];
    assert.deepEqual(command, ["node", "--max-old-space-size=77", "cli/main.js", "webhook", "--config", config]);
    assert.equal(volumeMounts[0].mountPath, config);
  });

  it("get the time to drain: the sleep of preStop, the proxy's drain, and a margin", () => {
    const objects = render({ config: { proxy: { drainSeconds: 119.5 } }, pods: { preStopSleepSeconds: 7 } });
    const { terminationGracePeriodSeconds, containers } = podOf(objects, "proxy").spec;
    assert.deepEqual(containers[0].lifecycle, { preStop: { sleep: { seconds: 7 } } });
    assert.equal(terminationGracePeriodSeconds, 137);
  });

  it("are replaced without a gap, spread where possible, and kept by a budget if there are two or more", () => {
    const objects = render({ proxy: { replicas: 1 } });
    for (const { spec } of deployments(objects)) {
      assert.deepEqual(spec.strategy, { type: "RollingUpdate", rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } });
      // A second constraint would need zones: without zones, the scheduler would not spread by node either.
      const { affinity, topologySpreadConstraints: spread } = spec.template.spec;
      const [{ podAffinityTerm }] = affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution;
      assert.deepEqual(
        spread.map(({ topologyKey, whenUnsatisfiable }: Rendered) => [topologyKey, whenUnsatisfiable]),
        [["kubernetes.io/hostname", "ScheduleAnyway"]],
      );
      assert.equal(podAffinityTerm.topologyKey, "topology.kubernetes.io/zone");
      assert.deepEqual(podAffinityTerm.labelSelector, spread[0].labelSelector);
    }
    const budgets = objects.filter(({ kind }) => kind === "PodDisruptionBudget");
    assert.deepEqual(budgets.map(({ metadata, spec }) => [metadata.name, spec.minAvailable]).toSorted(), [
      ["switchback-controller", 1],
      ["switchback-webhook", 1],
    ]);
  });

  it("roll when the config changes, and only then", () => {
    const template = (values: object) => podOf(render(values), "proxy");
    assert.deepEqual(template({}), template({ proxy: { replicas: 5 } }));
    assert.notDeepEqual(template({}), template({ config: { webhook: { healthPort: 9081 } } }));
  });

  it("mount the one ConfigMap of their namespace that is named by the hash of the config", () => {
    const objects = render({ agent: { enabled: true } });
    const configs = objects.filter(({ metadata }) => metadata.labels["app.kubernetes.io/component"] === "config");
    const [{ metadata, data, immutable }] = configs;
    const hash = createHash("sha256").update(data["config.yaml"].trimEnd()).digest("hex").slice(0, 10);
    assert.deepEqual([metadata.name, immutable], [`switchback-config-${hash}`, true]);
    assert.deepEqual(
      configs.map((config) => `${config.metadata.namespace}/${config.metadata.name}`).toSorted(),
      [NAMESPACE, "switchback-agent"].map((namespace) => `${namespace}/${metadata.name}`),
    );
    const templates = objects.filter(({ kind }) => kind === "Deployment" || kind === "DaemonSet");
    assert.deepEqual(
      templates.map(({ spec }) => spec.template.spec.volumes[0].configMap.name),
      Array(4).fill(metadata.name),
    );
  });

  it("of the webhook have the given certificate files where the config says", () => {
    const objects = render({ config: { certs: { mode: "files" } }, certFiles: { secretName: "mine" } });
    const { certs } = configOf(objects);
    const { volumes, containers } = podOf(objects, "webhook").spec;
    assert.deepEqual(volumes[1], { name: "tls", secret: { secretName: "mine" } });
    const [, { mountPath }] = containers[0].volumeMounts;
    assert.deepEqual([certs.certFile, certs.keyFile], [`${mountPath}/tls.crt`, `${mountPath}/tls.key`]);
    assert.ok(podOf(objects, "proxy").spec.volumes.every(({ secret }: Rendered) => secret === undefined));
  });
});

describe("the proxy's targets", () => {
  it("are mounted where the program looks, and a pod starts without them", () => {
    const { volumes, containers } = podOf(render(), "proxy").spec;
    assert.deepEqual(volumes[1], { name: "targets", configMap: { name: OBJECTS.targets, optional: true } });
    assert.equal(containers[0].volumeMounts[1].mountPath, "/etc/switchback/targets");
  });
});

describe("admission policies", () => {
  const GROUP = "admissionregistration.k8s.io/v1";
  const policies = (objects: Rendered[], kind: string) =>
    objects.filter((object) => object.kind === kind).map(({ metadata }) => metadata.name);

  it("are all bound, and do not depend on what is installed", () => {
    const always = policies(render(), POLICY);
    const config = { restart: { namespaces: ["shop"] }, publishers: { coredns: { enabled: true } } };
    const all = render({ agent: { enabled: true }, config });
    assert.deepEqual(new Set(policies(all, POLICY)), new Set([...always, "switchback-restarts"]));
    assert.deepEqual(policies(all, BINDING), policies(all, POLICY));
    for (const { spec } of all.filter(({ kind }) => kind === BINDING))
      assert.deepEqual(spec.validationActions, ["Deny"]);
  });

  it("are not rendered if the values disable them, or if the API server does not serve the kind", () => {
    assert.deepEqual(policies(render({ admission: { policies: false } }), POLICY), []);
    assert.deepEqual(policies(render({}, ["--api-versions", "v1/Pod"]), POLICY), []);
    const served = ["--api-versions", `v1/Pod,${GROUP}/${POLICY}`];
    assert.deepEqual(policies(render({}, served), POLICY), policies(render(), POLICY));
  });

  it("protect every Service of the chart from the controller", () => {
    const objects = render({ podDns: { enabled: true, image: "registry.example.com/coredns:1" } });
    const services = objects.filter(({ kind }) => kind === "Service").map(({ metadata }) => metadata.name);
    const { validations } = named(objects, POLICY, "switchback-front-services").spec;
    assert.deepEqual(
      services.filter((name) => !validations[0].expression.includes(`"${name}"`)),
      [],
    );
  });

  it("have the proxies' selector from the configuration", () => {
    const selector = { tier: "edge", app: "relay" };
    const objects = render({ config: { proxy: { selector } } });
    const { validations } = named(objects, POLICY, "switchback-front-services").spec;
    assert.ok(validations.some(({ expression }: Rendered) => expression.endsWith('{"app":"relay","tier":"edge"}')));
  });
});
