import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { before, describe, it } from "node:test";
import { parseAllDocuments } from "yaml";
import {
  CHART,
  configOf,
  direct,
  helm,
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
const peersOf = ({ from = [], to = [] }: Rendered) => [...from, ...to];
const DEFAULT = { config: { optIn: { namespaces: ["cert-manager"] } } };

const COMBINATIONS: Record<string, object> = {
  defaults: {},
  "the README's install": DEFAULT,
  "profile small": { ...DEFAULT, profile: "small", networkPolicy: { enabled: true, clients: { health: [{}] } } },
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
      const { namespace, certs } = configOf(objects);
      const file = (name: string) => (certs.mode === "files" ? `/etc/switchback/tls/${name}` : undefined);
      assert.deepEqual([namespace, certs.certFile, certs.keyFile], [NAMESPACE, file("tls.crt"), file("tls.key")]);
      const text = named(objects, "ConfigMap", "switchback-config").data["config.yaml"].trimEnd();
      const checksum = createHash("sha256").update(text).digest("hex");
      for (const { kind, spec } of workloads())
        if (kind !== "Job") assert.equal(spec.template.metadata.annotations["checksum/config"], checksum);
    });

    it("Services and front Services select pods of one workload with their ports, NetworkPolicies some pods", () => {
      const pods = workloads().map(({ metadata, spec }) => ({ name: metadata.name, ...spec.template }));
      const selected = (selector: Record<string, string>) =>
        pods.filter(({ metadata }) => Object.entries(selector).every(([key, value]) => metadata.labels[key] === value));
      assert.equal(selected(configOf(objects).proxy.selector).length, 1);
      for (const { kind, metadata, spec } of objects) {
        if (kind === "Deployment") assert.deepEqual(selected(spec.selector.matchLabels).length, 1);
        if (kind === "NetworkPolicy")
          for (const { podSelector } of [spec, ...[spec.ingress ?? [], spec.egress].flat().flatMap(peersOf)])
            if (podSelector) assert.ok(selected(podSelector.matchLabels).length > 0, metadata.name);
        if (kind !== "Service") continue;
        const [pod, ...others] = selected(spec.selector);
        assert.deepEqual([pod === undefined, others.length], [false, 0], metadata.name);
        const all = [...(pod?.spec.initContainers ?? []), ...(pod?.spec.containers ?? [])];
        const ports = all.flatMap((container: Rendered) => container.ports.map(({ name }: Rendered) => name));
        for (const { targetPort } of spec.ports)
          assert.ok(ports.includes(targetPort), `${metadata.name} ${targetPort}`);
      }
    });

    it("no rule has a wildcard, more than ten names, or every Secret", () => {
      const rules: Rendered[] = objects.flatMap((object) => (/Role$/.test(object.kind) ? object.rules : []));
      for (const { verbs, resources, apiGroups, resourceNames = [] } of rules) {
        const what = JSON.stringify([verbs, resources, resourceNames]);
        assert.ok(![...verbs, ...resources, ...apiGroups].includes("*") && resourceNames.length <= 10, what);
        assert.ok(!resources.includes("secrets") || resourceNames.length > 0, what);
      }
    });

    it("every policy is bound, and denies; one protects every Service of the chart from the controller", () => {
      const bound = objects.filter(({ kind }) => kind === `${POLICY}Binding`);
      assert.deepEqual(
        bound.map(({ spec }) => [spec.policyName, ...spec.validationActions]),
        objects.filter(({ kind }) => kind === POLICY).map(({ metadata }) => [metadata.name, "Deny"]),
      );
      const [{ expression }] = named(objects, POLICY, "switchback-own-objects").spec.validations;
      for (const { kind, metadata } of objects)
        if (kind === "Service") assert.ok(expression.includes(`'${metadata.name}'`), metadata.name);
    });
  });
}

describe("an install", () => {
  const small = { ...DEFAULT, profile: "small" };
  for (const [what, values, limits] of [
    ["the README's", DEFAULT, { objects: 40, lines: 1_490, kB: 70, rules: 36, policies: 3 }],
    ["of the profile small", small, { objects: 30, lines: 1_200, kB: 55, rules: 36, policies: 3 }],
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
      const isOptional =
        /^kind: (NetworkPolicy|\w+Monitor|PrometheusRule|DaemonSet)|name: switchback-(agent|dns|publish)/m;
      assert.doesNotMatch(text, isOptional);
      // The first comment says what each account may do.
      const [header = ""] = /(^# (?!Source:).*\n)+/m.exec(text) ?? [];
      for (const { name } of objects.flatMap(({ subjects = [] }) => subjects)) assert.ok(header.includes(name), name);
    });
  }

  it("without Helm has its policies before the rights that they limit", () => {
    const objects = parseAllDocuments(readFileSync(`${CHART}/../install.yaml`, "utf8"));
    const kinds = objects.map((object) => object.get("kind"));
    assert.ok(kinds.lastIndexOf(`${POLICY}Binding`) < kinds.indexOf("ClusterRole") && kinds.includes(POLICY));
  });

  it("has no policies only if the values say so", () => {
    const policies = (values: object, kinds: string) =>
      render(values, ["--api-versions", kinds]).filter(({ kind }) => kind === POLICY).length;
    assert.equal(policies({ admission: { policies: false } }, "v1/Pod"), 0);
    assert.ok(policies({}, `v1/Pod,admissionregistration.k8s.io/v1/${POLICY}`) > 0);
  });
});

describe("values that are refused, with what to do", () => {
  const own = (name: string) => ({ serviceAccount: { name } });
  for (const [values, message, flags = []] of [
    [{ proxy: { replica: 3 } }, /at '\/proxy\/replica': value must be 'absent: known keys are .* replicas,/],
    [{ proxy: { replicas: "3" } }, /at '\/proxy\/replicas': got string, want integer/],
    [{ config: { namespace: "other" } }, /at '\/config\/namespace': value must be 'absent: known keys are .* optIn,/],
    [{ config: { targets: [host("webhook", { port: 80 })] } }, /at '\/config\/targets\/0\/name'/],
    [{ config: { certs: { mode: "files" } } }, /certFiles\.secretName: required/],
    [{ config: { sources: null } }, /config\.sources: it has no value; leave it out/],
    [
      { config: { optIn: { namespaces: ["shop", "kube-system"] } } },
      /config\.optIn\.namespaces\[1\]: pods of kube-system are never sent .* a namespace other than kube-system, kube-/,
    ],
    [{ prometheusRule: { enabled: true, disabled: ["Nothing"] } }, /there is no alert Nothing; there are Switchback/],
    [{ webhook: own("one"), proxy: own("one") }, /serviceAccount\.name: each component needs an account of its own/],
    // An API server without the kind of the policies.
    [{}, /Set admission\.policies to false .* --api-versions admissionreg/, ["--api-versions", "v1/Pod"]],
    // Helm's namespace if none is given.
    [{}, /--namespace switchback-system --create-namespace/, ["--namespace", "default"]],
  ] as [object, RegExp, string[]?][]) {
    it(`${JSON.stringify(values)} ${flags.join(" ")}`, () => {
      const { code, stderr } = runHelm(values, flags);
      assert.equal(code, 1);
      assert.match(stderr, message);
    });
  }
});

it("Helm's linter reports nothing, not even that an icon is recommended", () => {
  const { status, stdout } = spawnSync(helm, ["lint", "--strict", CHART], { encoding: "utf8" });
  const [, ...lines] = stdout.trim().split("\n");
  assert.deepEqual([status, lines.filter(Boolean)], [0, ["1 chart(s) linted, 0 chart(s) failed"]]);
});
