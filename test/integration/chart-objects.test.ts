import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { NAMESPACE, named, podOf, type Rendered, render } from "./rendered.ts";

// Values that change the chart's objects and the image. For pods and accounts see chart-options.test.ts.

/** Enables every optional object, so that none is left out. */
const EVERYTHING = {
  agent: { enabled: true },
  podDns: { enabled: true, image: "registry.example.com/coredns:1" },
  networkPolicy: { enabled: true },
  flowControl: { enabled: true },
  serviceMonitor: { enabled: true, namespace: "monitoring" },
  podMonitor: { enabled: true, namespace: "monitoring" },
  prometheusRule: { enabled: true },
  grafanaDashboard: { enabled: true, annotations: { folder: "ours" } },
  config: {
    certs: { mode: "cert-manager" },
    restart: { namespaces: ["shop"] },
    publishers: { coredns: { enabled: true } },
  },
};

describe("settings of objects", () => {
  it("commonAnnotations are on every object, and do not replace ours", () => {
    const commonAnnotations = { team: "edge", folder: "theirs", "helm.sh/hook-weight": "9" };
    const [before, after] = [render(EVERYTHING), render({ ...EVERYTHING, commonAnnotations })];
    for (const [index, { metadata }] of after.entries())
      assert.deepEqual(metadata.annotations, { ...commonAnnotations, ...before[index]?.metadata.annotations });
    for (const { spec } of after.filter(({ kind }) => kind === "Deployment"))
      assert.equal(spec.template.metadata.annotations?.team, undefined);
  });

  it("the Services of the chart have the annotations and IP families of the values", () => {
    const service = { annotations: { a: "b" }, ipFamilies: ["IPv6", "IPv4"], ipFamilyPolicy: "RequireDualStack" };
    const services = (values: object) => render({ ...EVERYTHING, ...values }).filter(({ kind }) => kind === "Service");
    assert.equal(services({}).length, 5);
    for (const { metadata, spec } of services({ service })) {
      const { ipFamilies, ipFamilyPolicy } = spec;
      assert.deepEqual({ annotations: metadata.annotations, ipFamilies, ipFamilyPolicy }, service, metadata.name);
    }
    for (const { metadata, spec } of services({}))
      assert.deepEqual([metadata.annotations, Object.keys(spec).toSorted()], [undefined, ["ports", "selector"]]);
  });

  it("monitors in another namespace select the release's objects", () => {
    const monitors = render(EVERYTHING).filter(({ kind }) => kind === "ServiceMonitor" || kind === "PodMonitor");
    assert.equal(monitors.length, 6);
    for (const { metadata, spec } of monitors) {
      const where = metadata.name === "switchback-agent" ? "switchback-agent" : NAMESPACE;
      assert.deepEqual([metadata.namespace, spec.namespaceSelector], ["monitoring", { matchNames: [where] }]);
    }
  });

  it("extraObjects are YAML or text, both with template expressions", () => {
    const object = (name: string) => ({ apiVersion: "v1", kind: "ConfigMap", metadata: { name } });
    const extraObjects = [object("{{ .Release.Name }}-a"), "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: b }\n"];
    const objects = render({ extraObjects });
    for (const name of ["switchback-a", "b"]) assert.deepEqual(named(objects, "ConfigMap", name), object(name));
  });

  it("webhook.timeoutSeconds is the timeout of every entry", () => {
    const { webhooks } = named(
      render({ webhook: { timeoutSeconds: 5 } }),
      "MutatingWebhookConfiguration",
      "switchback-webhook",
    );
    assert.deepEqual(
      webhooks.map(({ timeoutSeconds }: Rendered) => timeoutSeconds),
      [5, 5, 5],
    );
  });
});

describe("the image", () => {
  const imageOf = (values: object) =>
    podOf(render(values), "proxy").spec.containers[0].image.replace(/[:@][^:@]+$/, "");
  const CASES: [string, string, string][] = [
    ["switchback", "", "switchback"],
    ["switchback", "mirror.example.com", "mirror.example.com/switchback"],
    ["edge/switchback", "mirror.example.com/a/", "mirror.example.com/a/edge/switchback"],
    ["registry.example.com/edge/switchback", "mirror.example.com", "mirror.example.com/edge/switchback"],
    ["localhost/switchback", "mirror.example.com", "mirror.example.com/switchback"],
    ["registry:5000/switchback", "localhost:5001", "localhost:5001/switchback"],
  ];
  for (const [repository, imageRegistry, expected] of CASES) {
    it(`${repository} with global.imageRegistry ${JSON.stringify(imageRegistry)} is ${expected}`, () => {
      assert.equal(imageOf({ image: { repository }, global: { imageRegistry, other: "a parent's" } }), expected);
    });
  }
});

describe("the registry's credentials", () => {
  const secretsOf = (values: object) => {
    const podDns = { enabled: true, image: "registry.example.com/coredns:1" };
    const objects = render({ ...values, podDns, agent: { enabled: true } });
    const specs = objects.map(({ kind, spec }) => (kind === "Pod" ? spec : spec?.template?.spec));
    return new Set(specs.filter(Boolean).map(({ imagePullSecrets }) => JSON.stringify(imagePullSecrets)));
  };

  it("are those of the chart and its parents, once, in every pod, also of hooks, agents and resolvers", () => {
    const [own, parents, both] = ["own", "parents", "both"].map((name) => ({ name }));
    const global = { imagePullSecrets: [parents, "both"], other: "a parent's" };
    const found = secretsOf({ global, imagePullSecrets: [both, own] });
    assert.deepEqual(found, new Set([JSON.stringify([parents, both, own])]));
    assert.deepEqual(secretsOf({}), new Set([undefined]));
  });
});
