import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { WEBHOOK_CONFIGURATION } from "#certs/objects.ts";
import { PRESETS } from "#controller/sources/custom/presets.ts";
import { ISTIO_KINDS } from "#controller/sources/istio.ts";
import { INJECT_KEY, VIA_KEY } from "#hostmap/metadata-keys.ts";
import { optInRules } from "#lib/config/opt-in.ts";
import { frontName } from "#lib/documents/listeners.ts";
import { isOptedIn } from "#lib/workloads/namespaces.ts";
import { OBJECTS, WRITTEN } from "../published.ts";
import { configOf, direct, NAMESPACE, named, type Rendered, relayed, render, runHelm } from "./rendered.ts";

const NAME_LABEL = "kubernetes.io/metadata.name";
type Labels = Readonly<Record<string, string>>;

/** Evaluates a label selector as the API server does: `NotIn` also selects objects without the label. */
function selects({ matchExpressions }: Rendered, labels: Labels): boolean {
  return matchExpressions.every(({ key, operator, values }: Rendered) => {
    assert.ok(operator === "In" || operator === "NotIn", operator);
    return values.includes(labels[key]) === (operator === "In");
  });
}

describe("the MutatingWebhookConfiguration", () => {
  const DNS = { podDns: { enabled: true, image: "registry.example.com/coredns:1" } };
  const entry = (name: string, fromNamespace: object[], ofPod: object) => ({
    name: `${name}.switchback.dev`,
    clientConfig: {
      service: { namespace: NAMESPACE, name: "switchback-webhook", path: `/mutate/${name}`, port: 443 },
    },
    rules: [{ operations: ["CREATE"], apiGroups: [""], apiVersions: ["v1"], resources: ["pods"], scope: "Namespaced" }],
    namespaceSelector: {
      matchExpressions: [
        {
          key: NAME_LABEL,
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

  /** The entry by which the controller tests whether the API server can call the webhook. */
  const REACHABLE = {
    name: "reachable.switchback.dev",
    clientConfig: { service: { namespace: NAMESPACE, name: "switchback-webhook", path: "/reachable", port: 443 } },
    rules: [
      { operations: ["UPDATE"], apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps"], scope: "Namespaced" },
    ],
    namespaceSelector: { matchExpressions: [{ key: NAME_LABEL, operator: "In", values: [NAMESPACE] }] },
    matchConditions: [
      {
        name: "dry-run-of-the-targets",
        expression: `request.name == '${OBJECTS.reachable}' && has(request.dryRun) && request.dryRun`,
      },
    ],
    matchPolicy: "Equivalent",
    timeoutSeconds: 2,
    reinvocationPolicy: "Never",
    sideEffects: "None",
    failurePolicy: "Fail",
    admissionReviewVersions: ["v1"],
  };
  /** The entries for pods. */
  const entriesOf = (objects: Rendered[]): Rendered[] =>
    named(objects, "MutatingWebhookConfiguration", WEBHOOK_CONFIGURATION).webhooks.filter(
      ({ name }: Rendered) => name !== REACHABLE.name,
    );

  it("has two entries for pods that exclude each other, one for the controller, and no caBundle", () => {
    const configuration = named(render(), "MutatingWebhookConfiguration", WEBHOOK_CONFIGURATION);
    assert.deepEqual(configuration.webhooks, [
      entry("namespace", [{ key: INJECT_KEY, operator: "In", values: ["enabled"] }], {
        operator: "NotIn",
        values: ["enabled", "disabled"],
      }),
      entry("pod", [], { operator: "In", values: ["enabled"] }),
      REACHABLE,
    ]);
    assert.equal(configuration.metadata.annotations, undefined);
  });

  it("with pod DNS has two more, for namespaces whose label selects the way that is not the default", () => {
    const rows = (values: object) =>
      entriesOf(render(values)).map(({ name, clientConfig, namespaceSelector }: Rendered) => {
        const via = namespaceSelector.matchExpressions.find(({ key }: Rendered) => key === "switchback.dev/via");
        return `${name} ${clientConfig.service.path} ${via.operator} ${via.values}`;
      });
    assert.deepEqual(rows(DNS), [
      "namespace.switchback.dev /mutate/namespace NotIn dns",
      "namespace-dns.switchback.dev /mutate/namespace/dns In dns",
      "pod.switchback.dev /mutate/pod NotIn dns",
      "pod-dns.switchback.dev /mutate/pod/dns In dns",
    ]);
    assert.deepEqual(rows({ ...DNS, config: { pods: { via: "dns" } } }), [
      "namespace.switchback.dev /mutate/namespace NotIn hosts",
      "namespace-hosts.switchback.dev /mutate/namespace/hosts In hosts",
      "pod.switchback.dev /mutate/pod NotIn hosts",
      "pod-hosts.switchback.dev /mutate/pod/hosts In hosts",
    ]);
  });

  const LISTED = { config: { optIn: { namespaces: ["cert-manager", "listed", "listed"] } } };
  const values = [undefined, "enabled", "disabled", "x"];
  const some = (labels: Record<string, string | undefined>): Labels =>
    Object.fromEntries(Object.entries(labels).filter(([, value]) => value !== undefined)) as Labels;
  /** All namespaces and pods that the selectors can distinguish. */
  const CASES = ["shop", "listed", "kube-system", NAMESPACE].flatMap((name) =>
    values.flatMap((inject) =>
      [undefined, "dns", "hosts"].flatMap((via) =>
        values.map((own) => ({
          name,
          ofNamespace: some({ [NAME_LABEL]: name, [INJECT_KEY]: inject, [VIA_KEY]: via }),
          ofPod: some({ [INJECT_KEY]: own }),
        })),
      ),
    ),
  );

  for (const [what, options] of [
    ["by default", {}],
    ["with pod DNS", DNS],
    ["with pod DNS by default", { ...DNS, config: { pods: { via: "dns" } } }],
    ["with namespaces that opt in by name", LISTED],
    ["with both", { ...DNS, ...LISTED }],
  ] as const) {
    it(`${what} has exactly one entry that selects a pod that opted in, and none that selects another pod`, () => {
      const objects = render(options);
      const webhooks = entriesOf(objects);
      const rules = optInRules(configOf(objects));
      for (const { name, ofNamespace, ofPod } of CASES) {
        const calls = webhooks.filter(
          ({ namespaceSelector, objectSelector }: Rendered) =>
            selects(namespaceSelector, ofNamespace) && selects(objectSelector, ofPod),
        );
        const pod = { namespace: name, inject: ofPod[INJECT_KEY], mirror: false };
        const optedIn = isOptedIn(pod, { inject: ofNamespace[INJECT_KEY], onChange: undefined }, rules);
        const entry = pod.inject === "enabled" ? "pod" : "namespace";
        const [, path] = /^\/mutate\/([a-z]+)/.exec(calls[0]?.clientConfig.service.path ?? "") ?? [];
        assert.deepEqual(
          [calls.length, path],
          optedIn ? [1, entry] : [0, undefined],
          JSON.stringify([ofNamespace, ofPod]),
        );
      }
    });
  }

  it("refuses a namespace that opts in by name but is excluded, and says where and what is accepted", () => {
    for (const name of ["kube-system", NAMESPACE]) {
      const { code, stderr } = runHelm({ config: { optIn: { namespaces: ["shop", name] } } });
      assert.notEqual(code, 0);
      const accepted = `a namespace other than kube-system, kube-node-lease, kube-public, ${NAMESPACE} `;
      assert.ok(stderr.includes(`config.optIn.namespaces[1]: pods of ${name} are never sent`), stderr);
      assert.ok(stderr.includes(`expected ${accepted}(admission.excludedNamespaces `), stderr);
    }
  });

  it("with cert-manager names the Certificate whose CA to inject, and has no caBundle", () => {
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

  it("excludes our own namespace, whatever the list has, and names it once", () => {
    for (const excludedNamespaces of [[], [NAMESPACE]]) {
      const objects = render({ admission: { excludedNamespaces } });
      for (const { namespaceSelector } of entriesOf(objects)) {
        assert.deepEqual(namespaceSelector.matchExpressions[0].values, [NAMESPACE]);
      }
    }
  });
});

describe("RBAC names the objects that the program writes", () => {
  const names = (role: Rendered, resource: string, verb?: string): string[] => {
    const rules: Rendered[] = role?.rules.filter((rule: Rendered) => rule.resources.includes(resource)) ?? [];
    const granting = rules.filter(({ verbs }) => verb === undefined || verbs.includes(verb));
    return [...new Set<string>(granting.flatMap(({ resourceNames }) => resourceNames ?? []))];
  };
  const controller = (values: object) => named(render(values), "Role", "switchback-controller");
  const clusterRole = (values: object) => named(render(values), "ClusterRole", "switchback-controller");

  it("every ConfigMap that the controller may write or delete, and the Secrets", () => {
    assert.deepEqual(names(controller({}), "configmaps"), WRITTEN);
    assert.deepEqual(names(named(render(), "Role", "switchback-proxy"), "configmaps"), [OBJECTS.targets]);
    assert.deepEqual(names(controller({}), "configmaps", "delete"), []);
    assert.deepEqual(names(named(render(), "Role", "switchback-webhook"), "configmaps"), [OBJECTS.map]);
    assert.deepEqual(names(controller({}), "secrets"), [OBJECTS.ca, OBJECTS.serving, OBJECTS.statusKey]);
    assert.deepEqual(names(named(render(), "Role", "switchback-webhook"), "secrets"), [OBJECTS.serving]);
    assert.deepEqual(names(clusterRole({}), "mutatingwebhookconfigurations"), [WEBHOOK_CONFIGURATION]);
  });

  it("with discovery no fronts, because nobody knows their names, and the right to read every Service", () => {
    assert.deepEqual(names(controller({}), "services"), []);
    const writing = controller({}).rules.filter(
      ({ resources, verbs }: Rendered) => resources.includes("services") && verbs.includes("create"),
    );
    assert.deepEqual(
      writing.map(({ verbs }: Rendered) => verbs),
      [["create", "patch", "delete"]],
    );
    const reading = clusterRole({}).rules.find(({ resources }: Rendered) => resources.includes("services"));
    assert.deepEqual(reading, { apiGroups: [""], resources: ["services"], verbs: ["list", "watch"] });
  });

  it("without discovery the front of each relayed target, and the Service behind each other target", () => {
    const discovery = { enabled: false };
    const given = { ...relayed, name: "given", classes: ["given"], clusterIPs: ["192.0.2.7"] };
    const plain = { name: "plain", upstream: { host: "lb.example.com" }, classes: ["plain"] };
    const values = { config: { discovery, targets: [relayed, direct, given, plain] } };
    const none = { config: { discovery } };
    assert.deepEqual(names(controller(values), "services"), [frontName("traefik"), frontName("plain")]);
    assert.deepEqual(names(clusterRole(values), "services"), ["router"]);
    assert.deepEqual(names(clusterRole(none), "services"), []);
    assert.deepEqual(names(controller({ config: { discovery, targets: [direct] } }), "services"), []);
  });

  it("the key of the status: people with a Role for it may read it, and the controller creates it", () => {
    const granted = render({ agent: { enabled: true } }).flatMap(({ kind, metadata, rules = [] }) =>
      (rules as Rendered[])
        .filter(
          ({ resources, resourceNames }) => resources.includes("secrets") && resourceNames?.includes(OBJECTS.statusKey),
        )
        .map(({ verbs }) => `${kind} ${metadata.name}: ${verbs.join()}`),
    );
    assert.deepEqual(granted.sort(), [
      "Role switchback-controller: get,create,patch",
      "Role switchback-doctor: get",
      "Role switchback-operator: get",
      "Role switchback-remains: delete",
    ]);
  });

  it("no other Secret and no change of the webhook configuration if the certificate is not ours", () => {
    const values = { config: { certs: { mode: "cert-manager" } } };
    assert.deepEqual(names(controller(values), "secrets"), [OBJECTS.statusKey]);
    assert.deepEqual(names(clusterRole(values), "mutatingwebhookconfigurations", "patch"), []);
    assert.deepEqual(names(clusterRole(values), "mutatingwebhookconfigurations", "get"), [WEBHOOK_CONFIGURATION]);
    const files = { config: { certs: { mode: "files" } }, certFiles: { secretName: "mine" } };
    assert.deepEqual(names(named(render(files), "Role", "switchback-webhook"), "secrets"), []);
  });

  const read = (values: object): string[] =>
    (clusterRole(values)?.rules ?? [])
      .filter(({ verbs }: Rendered) => verbs.join() === "list,watch")
      .flatMap(({ apiGroups, resources }: Rendered) => resources.map((name: string) => `${apiGroups.join()}/${name}`));

  for (const [name, { group, resource }] of Object.entries({ ...PRESETS, ...ISTIO_KINDS })) {
    it(`the preset ${name} grants the right to read its kind`, () => {
      const more = read({ config: { sources: { presets: [name] } } }).filter((right) => !read({}).includes(right));
      // The host names of a VirtualService depend on its Gateways.
      const gateways = name === "istio-virtualservice" ? [`${group}/gateways`] : [];
      assert.deepEqual(more, [`${group}/${resource}`, ...gateways]);
    });
  }

  it("custom kinds and Services may be read if they are configured", () => {
    const custom = [{ group: "example.com", version: "v1", resource: "widgets", hostnames: "$.spec.host" }];
    const discovery = { enabled: false };
    const before = read({ config: { discovery } });
    const more = read({ config: { discovery, sources: { custom, services: { enabled: true } } } });
    assert.deepEqual(
      more.filter((right) => !before.includes(right)),
      ["example.com/widgets", "/services"],
    );
    const found = read({ config: { sources: { services: { enabled: true } } } });
    assert.equal(found.filter((right) => right === "/services").length, 1, "the right to find targets is the same one");
  });

  it("pods and namespaces always, and nothing else if there is nothing else to read", () => {
    const values = {
      config: {
        certs: { mode: "cert-manager" },
        sources: { ingress: { enabled: false }, gateway: { enabled: false } },
        discovery: { enabled: false },
      },
    };
    const resources = clusterRole(values).rules.flatMap((rule: Rendered) => rule.resources);
    assert.deepEqual(resources, ["mutatingwebhookconfigurations", "pods", "namespaces", "events"]);
  });

  it("a Role in each namespace whose workloads may be restarted, and none by default", () => {
    const roles = (values: object) =>
      render(values)
        .filter(({ kind, metadata }) => kind === "Role" && metadata.name === "switchback-restart")
        .map(({ metadata }) => metadata.namespace);
    assert.deepEqual(roles({}), []);
    const [restart, optIn] = [{ namespaces: ["cert-manager", "shop"] }, { namespaces: ["shop", "listed"] }];
    assert.deepEqual(roles({ config: { restart } }), ["cert-manager", "shop"]);
    assert.deepEqual(roles({ config: { restart, optIn } }), ["cert-manager", "shop", "listed"]);
    const policy = named(render({ config: { restart, optIn } }), "ValidatingAdmissionPolicy", "switchback-restarts");
    const { namespaceSelector } = policy.spec.matchConstraints;
    assert.deepEqual(namespaceSelector.matchExpressions[0].values, ["cert-manager", "shop", "listed"]);
  });

  it("the agents' Leases only if there are agents", () => {
    const roles = (enabled: boolean) =>
      render({ agent: { enabled } })
        .filter(({ kind, metadata }) => kind === "Role" && metadata.name === "switchback-controller")
        .map(({ metadata }) => metadata.namespace)
        .sort();
    assert.deepEqual(roles(false), [NAMESPACE]);
    assert.deepEqual(roles(true), [NAMESPACE, "switchback-agent"]);
  });
});

describe("cert-manager", () => {
  const certificates = (values: object) =>
    render(values).filter(({ apiVersion }) => apiVersion === "cert-manager.io/v1");

  it("issues the webhook's Secret from its own CA, which is not the controller's", () => {
    const objects = certificates({ config: { certs: { mode: "cert-manager", leafDays: 0.5 } } });
    const { spec } = named(objects, "Certificate", "switchback-webhook");
    assert.equal(spec.secretName, OBJECTS.serving);
    assert.deepEqual(spec.dnsNames, [`switchback-webhook.${NAMESPACE}.svc`]);
    assert.equal(spec.duration, "12h");
    const issuer = named(objects, spec.issuerRef.kind, spec.issuerRef.name);
    const ca = named(objects, "Certificate", "switchback-ca");
    assert.deepEqual([ca.spec.isCA, ca.spec.secretName], [true, issuer.spec.ca.secretName]);
    assert.notEqual(ca.spec.secretName, OBJECTS.ca);
    assert.deepEqual(named(objects, "Issuer", ca.spec.issuerRef.name).spec, { selfSigned: {} });
  });

  it("uses the issuer of the values, and then creates none", () => {
    const issuerRef = { name: "corporate", kind: "ClusterIssuer" };
    const objects = certificates({ config: { certs: { mode: "cert-manager" } }, certManager: { issuerRef } });
    assert.equal(objects.length, 1);
    assert.deepEqual(objects[0].spec.issuerRef, { group: "cert-manager.io", ...issuerRef });
  });

  it("is not needed otherwise", () => {
    assert.deepEqual(certificates({}), []);
  });
});
