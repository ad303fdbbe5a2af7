import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { parse, parseAllDocuments, stringify } from "yaml";
import { WEBHOOK_CONFIGURATION } from "../../certs/cabundle.ts";
import { CA_SECRET, TLS_SECRET } from "../../certs/store.ts";
import { type Config, configSchema } from "../../config/schema.ts";
import { frontName } from "../../controller/fronts.ts";
import { INDEX_NAME, shardName } from "../../controller/store.ts";
import { INJECT_KEY } from "../../hosts/keys.ts";
import { MAX_SHARDS } from "../../hosts/shards.ts";
import { listenersOf } from "../../targets/listeners.ts";
import { binary } from "../cluster/binaries.ts";

// The chart as `helm template` renders it. What a real API server says of it is in install.test.ts.

const CHART = fileURLToPath(new URL("../../manifests/chart", import.meta.url));
const NAMESPACE = "names-of-ours";
const COMPONENTS = ["controller", "webhook", "proxy"] as const;

// biome-ignore lint/suspicious/noExplicitAny: rendered YAML, read as it comes
type Rendered = any;

let helm: string;
before(async () => {
  helm = await binary("helm");
});

function run(values: object): { code: number | null; stdout: string; stderr: string } {
  const args = ["template", "switchback", CHART, "--namespace", NAMESPACE, "--values", "-"];
  const { status, stdout, stderr } = spawnSync(helm, args, { input: stringify(values), encoding: "utf8" });
  return { code: status, stdout, stderr };
}

function render(values: object = {}): Rendered[] {
  const { code, stdout, stderr } = run(values);
  assert.equal(code, 0, stderr);
  return parseAllDocuments(stdout)
    .map((document) => {
      assert.deepEqual(document.errors, []);
      return document.toJS();
    })
    .filter((object) => object !== null);
}

const named = (objects: Rendered[], kind: string, name: string): Rendered =>
  objects.find((object) => object.kind === kind && object.metadata.name === name);
const deployments = (objects: Rendered[]): Rendered[] => objects.filter(({ kind }) => kind === "Deployment");
const podOf = (objects: Rendered[], component: string): Rendered =>
  named(objects, "Deployment", `switchback-${component}`).spec.template;

/** The config that the pods read, as they read it. */
function configOf(objects: Rendered[]): Config {
  return configSchema.parse(parse(named(objects, "ConfigMap", "switchback-config").data["config.yaml"]));
}

const host = (name: string, port: object, more: object = {}) => ({
  name,
  upstream: { host: "lb.example.com" },
  ports: [port],
  classes: [name],
  ...more,
});
const relayed = host("traefik", { port: 443, protocol: "v2", listenPort: 9443 });
const direct = {
  ...host("direct", { port: 80, protocol: "none" }),
  upstream: { service: { namespace: "edge", name: "router" } },
};

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

const CLUSTER_SCOPED = ["ClusterRole", "ClusterRoleBinding", "MutatingWebhookConfiguration"];

for (const [title, values] of Object.entries(COMBINATIONS)) {
  describe(`with ${title}`, () => {
    let objects: Rendered[];
    before(() => {
      objects = render(values);
    });

    it("every object has our prefix, our labels and the release's namespace, and is there once", () => {
      const ids = objects.map(({ kind, metadata }) => `${kind}/${metadata.name}`);
      assert.deepEqual(ids, [...new Set(ids)]);
      for (const { kind, metadata } of objects) {
        assert.match(metadata.name, /^switchback-/);
        assert.equal(metadata.labels["app.kubernetes.io/name"], "switchback", metadata.name);
        assert.equal(metadata.namespace, CLUSTER_SCOPED.includes(kind) ? undefined : NAMESPACE, metadata.name);
      }
    });

    it("every container is restricted, limited in memory alone, and probed", () => {
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

    it("pods get no service links, and a token only where one is used", () => {
      for (const component of COMPONENTS) {
        const { spec } = podOf(objects, component);
        assert.equal(spec.enableServiceLinks, false);
        assert.equal(spec.automountServiceAccountToken, component !== "proxy");
        assert.equal(spec.serviceAccountName, `switchback-${component}`);
        assert.equal(named(objects, "ServiceAccount", `switchback-${component}`).automountServiceAccountToken, false);
      }
    });

    it("the config that is mounted passes the schema, in the release's namespace", () => {
      assert.equal(configOf(objects).namespace, NAMESPACE);
    });

    it("selectors find the pods: of the Deployments, the Services and the front Services", () => {
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

    it("a right to write is bound to names, apart from making Events", () => {
      for (const { rules, metadata } of objects.filter(({ kind }) => kind === "Role" || kind === "ClusterRole")) {
        for (const rule of rules as Rendered[]) {
          const reads = rule.verbs.every((verb: string) => ["list", "watch"].includes(verb));
          const makesEvents = rule.resources[0] === "events" && rule.verbs.join() === "create";
          assert.ok(
            reads || makesEvents || rule.resourceNames?.length > 0,
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

describe("the MutatingWebhookConfiguration", () => {
  const entry = (name: string, fromNamespace: object[], ofPod: object) => ({
    name: `${name}.switchback.dev`,
    clientConfig: {
      service: { namespace: NAMESPACE, name: "switchback-webhook", path: `/mutate/${name}`, port: 443 },
    },
    rules: [{ operations: ["CREATE"], apiGroups: [""], apiVersions: ["v1"], resources: ["pods"], scope: "Namespaced" }],
    namespaceSelector: {
      matchExpressions: [
        {
          key: "kubernetes.io/metadata.name",
          operator: "NotIn",
          values: ["kube-system", "kube-node-lease", "kube-public", NAMESPACE],
        },
        ...fromNamespace,
      ],
    },
    objectSelector: { matchExpressions: [{ key: INJECT_KEY, ...ofPod }] },
    matchPolicy: "Equivalent",
    timeoutSeconds: 2,
    reinvocationPolicy: "IfNeeded",
    sideEffects: "None",
    failurePolicy: "Ignore",
    admissionReviewVersions: ["v1"],
  });

  it("has two entries that exclude each other, and no caBundle", () => {
    const configuration = named(render(), "MutatingWebhookConfiguration", WEBHOOK_CONFIGURATION);
    assert.deepEqual(configuration.webhooks, [
      entry("namespace", [{ key: INJECT_KEY, operator: "In", values: ["enabled"] }], {
        operator: "NotIn",
        values: ["enabled", "disabled"],
      }),
      entry("pod", [], { operator: "In", values: ["enabled"] }),
    ]);
    assert.equal(configuration.metadata.annotations, undefined);
  });

  it("with cert-manager names the Certificate to take the CA from, and still has no caBundle", () => {
    const objects = render({ config: { certs: { mode: "cert-manager" } } });
    const { metadata, webhooks } = named(objects, "MutatingWebhookConfiguration", WEBHOOK_CONFIGURATION);
    assert.deepEqual(metadata.annotations, { "cert-manager.io/inject-ca-from": `${NAMESPACE}/switchback-webhook` });
    assert.ok(webhooks.every(({ clientConfig }: Rendered) => !("caBundle" in clientConfig)));
  });

  it("with certificate files has the caBundle of the values", () => {
    const values = { config: { certs: { mode: "files" } }, certFiles: { secretName: "mine", caBundle: "PEM" } };
    const { webhooks } = named(render(values), "MutatingWebhookConfiguration", WEBHOOK_CONFIGURATION);
    for (const { clientConfig } of webhooks) assert.equal(clientConfig.caBundle, Buffer.from("PEM").toString("base64"));
  });

  it("excludes our own namespace whatever the list says, and names it once", () => {
    for (const excludedNamespaces of [[], [NAMESPACE]]) {
      const objects = render({ admission: { excludedNamespaces } });
      const { webhooks } = named(objects, "MutatingWebhookConfiguration", WEBHOOK_CONFIGURATION);
      for (const { namespaceSelector } of webhooks) {
        assert.deepEqual(namespaceSelector.matchExpressions[0].values, [NAMESPACE]);
      }
    }
  });
});

describe("values", () => {
  const REFUSED: [object, RegExp][] = [
    [{ images: {} }, /at '': additional properties 'images' not allowed/],
    [{ proxy: { replica: 3 } }, /at '\/proxy': additional properties 'replica' not allowed/],
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
    [{ config: { certs: { mode: "files" } } }, /certFiles\.secretName: required/],
  ];
  for (const [values, message] of REFUSED) {
    it(`refuses ${JSON.stringify(values)}, and says where`, () => {
      const { code, stderr } = run(values);
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

  it("place all pods, and one Deployment's pods in their own way", () => {
    const all = { nodeSelector: { pool: "infra" }, tolerations: [{ operator: "Exists" }], annotations: { all: "1" } };
    const objects = render({ pods: all, proxy: { nodeSelector: { pool: "edge" }, annotations: { own: "1" } } });
    assert.deepEqual(podOf(objects, "webhook").spec.nodeSelector, { pool: "infra" });
    assert.deepEqual(podOf(objects, "proxy").spec.nodeSelector, { pool: "edge" });
    assert.deepEqual(podOf(objects, "proxy").spec.tolerations, [{ operator: "Exists" }]);
    assert.equal(podOf(objects, "webhook").metadata.annotations.all, "1");
    assert.equal(podOf(objects, "proxy").metadata.annotations.own, "1");
  });

  it("move the ports of containers and probes, and no Service", () => {
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

  it("leave the user to the platform where runAsUser is null", () => {
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
    assert.deepEqual(command, ["node", "--max-old-space-size=77", "cli/main.ts", "webhook", "--config", config]);
    assert.equal(volumeMounts[0].mountPath, config);
  });

  it("are given the time to drain: the sleep of preStop, the proxy's drain, and some", () => {
    const objects = render({ config: { proxy: { drainSeconds: 119.5 } }, pods: { preStopSleepSeconds: 7 } });
    const { terminationGracePeriodSeconds, containers } = podOf(objects, "proxy").spec;
    assert.deepEqual(containers[0].lifecycle, { preStop: { sleep: { seconds: 7 } } });
    assert.equal(terminationGracePeriodSeconds, 137);
  });

  it("are replaced without a gap, spread where that is possible, and kept by a budget from two up", () => {
    const objects = render({ proxy: { replicas: 1 } });
    for (const { spec } of deployments(objects)) {
      assert.deepEqual(spec.strategy, { type: "RollingUpdate", rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } });
      const spread: Rendered[] = spec.template.spec.topologySpreadConstraints;
      assert.deepEqual(
        spread.map(({ whenUnsatisfiable }) => whenUnsatisfiable),
        ["ScheduleAnyway", "ScheduleAnyway"],
      );
    }
    const budgets = objects.filter(({ kind }) => kind === "PodDisruptionBudget");
    assert.deepEqual(budgets.map(({ metadata, spec }) => [metadata.name, spec.minAvailable]).toSorted(), [
      ["switchback-controller", 1],
      ["switchback-webhook", 1],
    ]);
  });

  it("roll when the config changes, and only then", () => {
    const checksum = (values: object) => podOf(render(values), "proxy").metadata.annotations["checksum/config"];
    assert.equal(checksum({}), checksum({ proxy: { replicas: 5 } }));
    assert.notEqual(checksum({}), checksum({ config: { proxy: { drainSeconds: 31 } } }));
  });

  it("of the webhook have the given certificate files where the config says", () => {
    const objects = render({ config: { certs: { mode: "files" } }, certFiles: { secretName: "mine" } });
    const { certs } = configOf(objects);
    const { volumes, containers } = podOf(objects, "webhook").spec;
    assert.deepEqual(volumes[1], { name: "tls", secret: { secretName: "mine" } });
    const [, { mountPath }] = containers[0].volumeMounts;
    assert.deepEqual([certs.certFile, certs.keyFile], [`${mountPath}/tls.crt`, `${mountPath}/tls.key`]);
    assert.equal(podOf(objects, "proxy").spec.volumes.length, 1);
  });
});

describe("RBAC names the objects that the program writes", () => {
  const names = (role: Rendered, resource: string): string[] =>
    role?.rules
      .filter((rule: Rendered) => rule.resources.includes(resource))
      .flatMap((rule: Rendered) => rule.resourceNames ?? []) ?? [];
  const controller = (values: object) => named(render(values), "Role", "switchback-controller");
  const clusterRole = (values: object) => named(render(values), "ClusterRole", "switchback-controller");

  it("the index, every shard there can be, and the Secrets", () => {
    const shards = Array.from({ length: MAX_SHARDS }, (_, index) => shardName(index));
    assert.deepEqual(names(controller({}), "configmaps"), [INDEX_NAME, ...shards]);
    assert.deepEqual(names(controller({}), "secrets"), [CA_SECRET, TLS_SECRET]);
    assert.deepEqual(names(named(render(), "Role", "switchback-webhook"), "secrets"), [TLS_SECRET]);
    assert.deepEqual(names(clusterRole({}), "mutatingwebhookconfigurations"), [WEBHOOK_CONFIGURATION]);
  });

  it("the front of each target that is relayed, and the Service behind each that is not", () => {
    const given = { ...relayed, name: "given", classes: ["given"], clusterIPs: ["192.0.2.7"] };
    const plain = { name: "plain", upstream: { host: "lb.example.com" }, classes: ["plain"] };
    const values = { config: { targets: [relayed, direct, given, plain] } };
    assert.deepEqual(names(controller(values), "services"), [frontName("traefik"), frontName("plain")]);
    assert.deepEqual(names(clusterRole(values), "services"), ["router"]);
    assert.deepEqual(names(clusterRole({}), "services"), []);
    assert.deepEqual(names(controller({ config: { targets: [direct] } }), "services"), []);
  });

  it("no Secret and no webhook configuration where the certificate is another's", () => {
    const values = { config: { certs: { mode: "cert-manager" } } };
    assert.deepEqual(names(controller(values), "secrets"), []);
    assert.deepEqual(names(clusterRole(values), "mutatingwebhookconfigurations"), []);
    const files = { config: { certs: { mode: "files" } }, certFiles: { secretName: "mine" } };
    assert.deepEqual(names(named(render(files), "Role", "switchback-webhook"), "secrets"), []);
  });

  it("no ClusterRole where there is nothing to read in other namespaces", () => {
    const values = { config: { certs: { mode: "cert-manager" }, sources: { ingress: { enabled: false } } } };
    assert.equal(clusterRole(values), undefined);
    assert.equal(named(render(values), "ClusterRoleBinding", "switchback-controller"), undefined);
  });
});

describe("cert-manager", () => {
  const certificates = (values: object) =>
    render(values).filter(({ apiVersion }) => apiVersion === "cert-manager.io/v1");

  it("issues the webhook's Secret from a CA of its own, which is not the controller's", () => {
    const objects = certificates({ config: { certs: { mode: "cert-manager", leafDays: 0.5 } } });
    const { spec } = named(objects, "Certificate", "switchback-webhook");
    assert.equal(spec.secretName, TLS_SECRET);
    assert.deepEqual(spec.dnsNames, [`switchback-webhook.${NAMESPACE}.svc`]);
    assert.equal(spec.duration, "12h");
    const issuer = named(objects, spec.issuerRef.kind, spec.issuerRef.name);
    const ca = named(objects, "Certificate", "switchback-ca");
    assert.deepEqual([ca.spec.isCA, ca.spec.secretName], [true, issuer.spec.ca.secretName]);
    assert.notEqual(ca.spec.secretName, CA_SECRET);
    assert.deepEqual(named(objects, "Issuer", ca.spec.issuerRef.name).spec, { selfSigned: {} });
  });

  it("takes the issuer of the values, and then makes none", () => {
    const issuerRef = { name: "corporate", kind: "ClusterIssuer" };
    const objects = certificates({ config: { certs: { mode: "cert-manager" } }, certManager: { issuerRef } });
    assert.equal(objects.length, 1);
    assert.deepEqual(objects[0].spec.issuerRef, { group: "cert-manager.io", ...issuerRef });
  });

  it("is not needed otherwise", () => {
    assert.deepEqual(certificates({}), []);
  });
});

describe("what is off by default", () => {
  it("NetworkPolicies let in every port that the proxy listens on", () => {
    assert.ok(render().every(({ kind }) => kind !== "NetworkPolicy"));
    const values = { networkPolicy: { enabled: true }, config: { targets: [relayed, host("b", { port: 80 })] } };
    const objects = render(values);
    assert.equal(objects.filter(({ kind }) => kind === "NetworkPolicy").length, 3);
    const [{ ports }] = named(objects, "NetworkPolicy", "switchback-proxy").spec.ingress;
    const isOpen = (port: number) =>
      ports.some((range: Rendered) => range.port <= port && port <= (range.endPort ?? range.port));
    const { targets, proxy } = configOf(objects);
    const bound = [...listenersOf(targets).map(({ listenPort }) => listenPort), proxy.healthPort];
    assert.deepEqual(bound.map(isOpen), [true, true, true]);
    assert.equal(isOpen(22), false);
  });

  it("NetworkPolicies confine the way to the API server to the addresses of the values", () => {
    const apiServer = { cidrs: ["192.0.2.0/24"], ports: [6443] };
    const policy = named(
      render({ networkPolicy: { enabled: true, apiServer } }),
      "NetworkPolicy",
      "switchback-webhook",
    );
    assert.deepEqual(policy.spec.egress[1], {
      ports: [{ protocol: "TCP", port: 6443 }],
      to: [{ ipBlock: { cidr: "192.0.2.0/24" } }],
    });
  });

  it("ServiceMonitors scrape a port that their Service has", () => {
    assert.ok(render().every(({ kind }) => kind !== "ServiceMonitor"));
    const objects = render({ serviceMonitor: { enabled: true } });
    for (const component of COMPONENTS) {
      const name = `switchback-${component}`;
      const [{ port }] = named(objects, "ServiceMonitor", name).spec.endpoints;
      const service = named(objects, "Service", name);
      assert.ok(service.spec.ports.some((entry: Rendered) => entry.name === port && entry.targetPort === "health"));
    }
  });
});
