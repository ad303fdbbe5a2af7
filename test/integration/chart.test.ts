import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { before, describe, it } from "node:test";
import {
  configOf,
  direct,
  host,
  NAMESPACE,
  named,
  type Rendered,
  relayed,
  render,
  renderText,
  runHelm,
} from "./rendered.ts";

// What holds for every object with any values, and how large an install is. For pods see chart-pods.test.ts, for
// admission and RBAC chart-rights.test.ts, for what is off by default chart-optional.test.ts.

const POLICY = "ValidatingAdmissionPolicy";
const CLUSTER_SCOPED = [
  "ClusterRole",
  "ClusterRoleBinding",
  "MutatingWebhookConfiguration",
  "Namespace",
  POLICY,
  `${POLICY}Binding`,
];
const WORKLOADS = ["Deployment", "DaemonSet", "Job"];
const DEFAULT = { config: { optIn: { namespaces: ["cert-manager"] } } };

const COMBINATIONS: Record<string, object> = {
  defaults: {},
  "the README's install": DEFAULT,
  "profile small": { ...DEFAULT, profile: "small" },
  "cert-manager": { config: { certs: { mode: "cert-manager" } } },
  "certificate files": { config: { certs: { mode: "files" } }, certFiles: { secretName: "mine", caBundle: "PEM" } },
  "a target without a relay": { config: { targets: [direct] } },
  "several targets": { config: { targets: [relayed, direct] } },
  "no targets, no Ingresses": { config: { targets: [], sources: { ingress: { enabled: false } } } },
  "one replica": { controller: { replicas: 1 }, webhook: { replicas: 1 }, proxy: { replicas: 1 } },
  "everything optional": {
    networkPolicy: { enabled: true },
    agent: { enabled: true },
    podDns: { enabled: true, image: "registry.example.com/coredns:1" },
    commonLabels: { team: "edge" },
    imagePullSecrets: [{ name: "registry" }],
    pods: { priorityClassName: "system-cluster-critical" },
    config: {
      publishers: { coredns: { enabled: true }, corednsImport: { enabled: true }, externalDns: { enabled: true } },
      nodeHosts: { names: ["registry.example.com"] },
    },
    global: { fromAParent: true },
    enabled: true,
  },
};

for (const [title, values] of Object.entries(COMBINATIONS)) {
  describe(`with ${title}`, () => {
    let objects: Rendered[];
    before(() => {
      objects = render(values);
    });
    const workloads = () => objects.filter(({ kind }) => WORKLOADS.includes(kind));
    const isOfAgents = ({ metadata, kind }: Rendered) => kind === "DaemonSet" || metadata.name === "switchback-agent";

    it("every object has our prefix, our labels and the release's namespace, and exists once", () => {
      const ids = objects.map(({ kind, metadata }) => `${kind}/${metadata.namespace}/${metadata.name}`);
      assert.deepEqual(ids, [...new Set(ids)]);
      for (const { kind, metadata } of objects) {
        assert.match(metadata.name, /^switchback(-|$)/);
        assert.equal(metadata.labels["app.kubernetes.io/name"], "switchback", metadata.name);
        const others = ["switchback-agent", "cert-manager", "kube-system"];
        if (CLUSTER_SCOPED.includes(kind)) assert.equal(metadata.namespace, undefined, metadata.name);
        else assert.ok([NAMESPACE, ...others].includes(metadata.namespace), metadata.name);
        if (kind === "Deployment" || kind === "Job") assert.equal(metadata.namespace, NAMESPACE);
      }
    });

    it("every pod is restricted, has only a memory limit, is probed, and runs as the account of its component", () => {
      for (const workload of workloads()) {
        const { spec } = workload.spec.template;
        const restricted = { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } };
        if (!isOfAgents(workload)) assert.deepEqual(spec.securityContext, restricted);
        for (const container of [...(spec.initContainers ?? []), ...spec.containers]) {
          const { capabilities, ...context } = container.securityContext;
          const own = container.name === "coredns" ? { runAsUser: 65532 } : {};
          assert.deepEqual(context, { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, ...own });
          assert.deepEqual(capabilities.drop, ["ALL"]);
          assert.deepEqual(Object.keys(container.resources.limits), ["memory"]);
          assert.deepEqual(Object.keys(container.resources.requests).toSorted(), ["cpu", "memory"]);
          if (workload.kind !== "Job") assert.ok(container.livenessProbe && container.resources, container.name);
        }
        assert.equal(spec.automountServiceAccountToken, true);
        const exists = objects.find(
          ({ kind, metadata }) => kind === "ServiceAccount" && metadata.name === spec.serviceAccountName,
        );
        assert.equal(exists?.automountServiceAccountToken, false, workload.metadata.name);
      }
    });

    it("the mounted config passes the schema, in the release's namespace, and its checksum is on every pod", () => {
      assert.equal(configOf(objects).namespace, NAMESPACE);
      const text = named(objects, "ConfigMap", "switchback-config").data["config.yaml"].trimEnd();
      const checksum = createHash("sha256").update(text).digest("hex");
      for (const { kind, spec } of workloads())
        if (kind !== "Job") assert.equal(spec.template.metadata.annotations["checksum/config"], checksum);
    });

    it("each Service, and the front Services, select the pods of one workload, which have their ports", () => {
      const pods = workloads().map(({ metadata, spec }) => ({ name: metadata.name, ...spec.template }));
      const selected = (selector: Record<string, string>) =>
        pods.filter(({ metadata }) => Object.entries(selector).every(([key, value]) => metadata.labels[key] === value));
      assert.equal(selected(configOf(objects).proxy.selector).length, 1);
      for (const { kind, metadata, spec } of objects) {
        if (kind === "Deployment") assert.deepEqual(selected(spec.selector.matchLabels).length, 1);
        if (kind !== "Service") continue;
        const [pod, ...others] = selected(spec.selector);
        assert.deepEqual([pod === undefined, others.length], [false, 0], metadata.name);
        const all = [...(pod?.spec.initContainers ?? []), ...(pod?.spec.containers ?? [])];
        const ports = all.flatMap((container: Rendered) => container.ports.map(({ name }: Rendered) => name));
        for (const { targetPort } of spec.ports)
          assert.ok(ports.includes(targetPort), `${metadata.name} ${targetPort}`);
      }
    });

    it("a right to write names its objects, at most ten, except for what an admission policy limits", () => {
      const { enabled: discovery } = configOf(objects).discovery;
      for (const { rules, metadata } of objects.filter(({ kind }) => kind === "Role" || kind === "ClusterRole")) {
        for (const rule of rules as Rendered[]) {
          const what = `${metadata.name}: ${JSON.stringify(rule)}`;
          const resources = rule.resources.join();
          const reads = rule.verbs.every((verb: string) => ["get", "list", "watch"].includes(verb));
          const limited =
            (resources === "events" && rule.verbs.join() === "create") ||
            (resources === "services" && discovery && metadata.namespace === NAMESPACE) ||
            (resources === "leases" && metadata.namespace === "switchback-agent") ||
            (/^switchback-publisher-/.test(metadata.name) && /^(configmaps|dnsendpoints)$/.test(resources)) ||
            (metadata.name === "switchback-uninstall-external-dns" && resources === "dnsendpoints") ||
            (metadata.name === "switchback-restart" && resources === "deployments,statefulsets,daemonsets");
          assert.ok(reads || limited || rule.resourceNames?.length > 0, what);
          assert.ok((rule.resourceNames ?? []).length <= 10, what);
          assert.ok(!rule.verbs.includes("*") && !rule.resources.includes("*") && !rule.apiGroups.includes("*"));
          if (rule.resources.includes("secrets")) assert.ok(rule.resourceNames?.length > 0, "no list of all Secrets");
        }
      }
    });

    it("every policy is bound, and denies", () => {
      const bound = objects.filter(({ kind }) => kind === `${POLICY}Binding`);
      assert.deepEqual(
        bound.map(({ spec }) => [spec.policyName, ...spec.validationActions]),
        objects.filter(({ kind }) => kind === POLICY).map(({ metadata }) => [metadata.name, "Deny"]),
      );
    });
  });
}

describe("an install", () => {
  for (const [what, values, limits] of [
    ["the README's", DEFAULT, { objects: 40, lines: 1_500, kB: 70, rules: 36, policies: 5 }],
    [
      "of the profile small",
      { ...DEFAULT, profile: "small" },
      { objects: 30, lines: 1_300, kB: 55, rules: 36, policies: 5 },
    ],
  ] as const) {
    it(`${what} is short enough to read: ${JSON.stringify(limits)}`, () => {
      const text = renderText(values);
      const objects = render(values);
      const sizes = {
        objects: objects.length,
        lines: text.split("\n").length - 1,
        kB: text.length / 1_000,
        rules: objects.flatMap(({ kind, rules }) => (/Role$/.test(kind) ? rules : [])).length,
        policies: objects.filter(({ kind }) => kind === POLICY).length,
      };
      for (const [key, limit] of Object.entries(limits))
        assert.ok(sizes[key as keyof typeof sizes] <= limit, `${key}: ${sizes[key as keyof typeof sizes]} of ${limit}`);
      assert.deepEqual(
        text.split("\n").filter((line) => line.length > 200),
        [],
      );
    });
  }

  it("has no policies if the values disable them, or if the API server does not serve the kind", () => {
    const policies = (values: object, flags: string[] = []) =>
      render(values, flags).filter(({ kind }) => kind === POLICY).length;
    assert.equal(policies({ admission: { policies: false } }), 0);
    assert.equal(policies({}, ["--api-versions", "v1/Pod"]), 0);
    assert.ok(policies({}, ["--api-versions", `v1/Pod,admissionregistration.k8s.io/v1/${POLICY}`]) > 0);
  });
});

describe("values that are refused, with the place", () => {
  const REFUSED: [object, RegExp][] = [
    [{ webhook: { timeoutSeconds: 0 } }, /at '\/webhook\/timeoutSeconds': minimum: got 0, want 1/],
    [{ service: { ipFamilyPolicy: "Dual" } }, /at '\/service\/ipFamilyPolicy'/],
    [{ proxy: { securityContext: "x" } }, /at '\/proxy\/securityContext': got string, want object/],
    [{ extraObjects: {} }, /at '\/extraObjects': got object, want array/],
    [{ commonAnnotations: { a: 1 } }, /at '\/commonAnnotations\/a': got number, want string/],
    [{ serviceMonitor: { interval: "soon" } }, /at '\/serviceMonitor\/interval'/],
    [{ images: {} }, /at '': additional properties 'images' not allowed/],
    [{ podAnnotations: {} }, /at '': additional properties 'podAnnotations' not allowed/],
    [{ proxy: { replica: 3 } }, /at '\/proxy': additional properties 'replica' not allowed/],
    [{ proxy: { hostNetwork: true } }, /at '\/proxy': additional properties 'hostNetwork'/],
    [{ webhook: { extraEnv: [{ value: "x" }] } }, /at '\/webhook\/extraEnv\/0': missing property 'name'/],
    [{ image: { digest: "sha256:12" } }, /at '\/image\/digest'/],
    [{ profile: "tiny" }, /at '\/profile': value must be one of 'default', 'small'/],
    [{ profile: "small", all: { replicas: 3 } }, /at '\/all\/replicas': maximum: got 3, want 2/],
    [{ config: { proxy: { engin: "portable" } } }, /at '\/config\/proxy': additional properties 'engin' not allowed/],
    [{ config: { namespace: "other" } }, /at '\/config': additional properties 'namespace' not allowed/],
    [{ config: { certs: { mode: "none" } } }, /at '\/config\/certs\/mode'/],
    [{ config: { targets: [host("webhook", { port: 80 })] } }, /at '\/config\/targets\/0\/name'/],
    [{ config: { certs: { mode: "files" } } }, /certFiles\.secretName: required/],
    [
      { config: { optIn: { namespaces: ["shop", "kube-system"] } } },
      /config\.optIn\.namespaces\[1\]: pods of kube-system are never sent .* a namespace other than kube-system, kube-/,
    ],
    [{ prometheusRule: { enabled: true, disabled: ["Nothing"] } }, /there is no alert Nothing; there are Switchback/],
    [
      { webhook: { serviceAccount: { name: "one" } }, proxy: { serviceAccount: { name: "one" } } },
      /serviceAccount\.name: each component needs an account of its own/,
    ],
  ];
  for (const [values, message] of REFUSED) {
    it(JSON.stringify(values), () => {
      const { code, stderr } = runHelm(values);
      assert.equal(code, 1);
      assert.match(stderr, message);
    });
  }

  it("the namespace default, which is Helm's if none is given", () => {
    const { code, stderr } = runHelm({}, ["--namespace", "default"]);
    assert.equal(code, 1);
    assert.match(stderr, /--namespace switchback-system --create-namespace/);
  });
});
