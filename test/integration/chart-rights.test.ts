import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { WEBHOOK_CONFIGURATION } from "#certs/objects.ts";
import { PRESETS } from "#controller/sources/custom/presets.ts";
import { ISTIO_KINDS } from "#controller/sources/istio.ts";
import { PUBLISHERS } from "#extras/publishers/names.ts";
import { publisherStateName } from "#extras/publishers/publisher-state.ts";
import { INJECT_KEY, VIA_KEY } from "#hostmap/metadata-keys.ts";
import { optInRules } from "#lib/config/opt-in.ts";
import { frontName } from "#lib/documents/listeners.ts";
import { isOptedIn } from "#lib/workloads/namespaces.ts";
import { OBJECTS } from "../published.ts";
import { configOf, direct, NAMESPACE, named, type Rendered, relayed, render } from "./rendered.ts";

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
    timeoutSeconds: 2,
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

/** The rights of an account: `create,patch configmaps/a,b [in NAMESPACE]`. */
function rightsOf(objects: Rendered[], account: string): string[] {
  const bindings = objects.filter(
    ({ kind, subjects }) =>
      /^(Cluster)?RoleBinding$/.test(kind) && subjects.some(({ name }: Rendered) => name === account),
  );
  return bindings.flatMap(({ kind, roleRef, metadata }) => {
    const where = kind === "RoleBinding" ? metadata.namespace : undefined;
    const role = objects.find(
      (one) => one.kind === roleRef.kind && one.metadata.name === roleRef.name && one.metadata.namespace === where,
    );
    return role.rules.map(
      ({ verbs, resources, resourceNames = [] }: Rendered) =>
        `${verbs} ${resources}${resourceNames.length === 0 ? "" : `/${resourceNames}`}${where ? ` in ${where}` : ""}`,
    );
  });
}

describe("what an account may do", () => {
  const RESTARTS = { restart: { namespaces: ["shop"] }, optIn: { namespaces: ["shop", "listed"] } };
  const objects = render({ config: RESTARTS });
  const OURS = `in ${NAMESPACE}`;
  const restart = (namespace: string) => `get,patch deployments,statefulsets,daemonsets in ${namespace}`;
  const readsSources = [
    "list,watch ingresses,ingressclasses",
    "list,watch gatewayclasses,gateways,listenersets,xlistenersets,httproutes,grpcroutes,tlsroutes",
  ];
  const TABLE: Readonly<Record<string, readonly string[]>> = {
    "switchback-controller": [
      ...readsSources,
      `get,list,watch,patch mutatingwebhookconfigurations/${WEBHOOK_CONFIGURATION}`,
      "get,list,watch pods",
      "list,watch namespaces,services",
      "create events",
      `list,watch,create,patch,update configmaps/${OBJECTS.map} ${OURS}`,
      `list,watch,create,patch configmaps/${OBJECTS.targets} ${OURS}`,
      `list,watch,create,patch,delete services ${OURS}`,
      `list,watch endpointslices ${OURS}`,
      `get,list,watch,create,patch secrets/${OBJECTS.ca},${OBJECTS.serving} ${OURS}`,
      `get,create,patch secrets/${OBJECTS.statusKey} ${OURS}`,
      `get,create,update,patch leases/${OBJECTS.lease} ${OURS}`,
      restart("shop"),
      restart("listed"),
    ],
    "switchback-webhook": [
      `list,watch configmaps/${OBJECTS.map} ${OURS}`,
      `list,watch secrets/${OBJECTS.serving} ${OURS}`,
    ],
    "switchback-proxy": [`list,watch configmaps/${OBJECTS.targets} ${OURS}`],
    "switchback-uninstall": [
      "list pods",
      "get daemonsets/switchback-agent",
      `delete mutatingwebhookconfigurations/${WEBHOOK_CONFIGURATION}`,
      `get configmaps/switchback-config,${OBJECTS.targets},${PUBLISHERS.toSorted().map(publisherStateName)} ${OURS}`,
      `patch deployments/scale/switchback-controller,switchback-all ${OURS}`,
      `list,delete services ${OURS}`,
      `delete configmaps/${OBJECTS.map},${OBJECTS.targets} ${OURS}`,
      `delete secrets/${OBJECTS.ca},${OBJECTS.serving},switchback-cert-manager-ca,${OBJECTS.statusKey} ${OURS}`,
      `delete leases/${OBJECTS.lease} ${OURS}`,
      restart("shop"),
      restart("listed"),
    ],
  };
  for (const [account, rights] of Object.entries(TABLE)) {
    it(`${account} in the default install`, () => {
      assert.deepEqual(rightsOf(objects, account).toSorted(), [...rights].toSorted());
    });
  }

  it("no other account has rights, and those of people are bound to nobody", () => {
    const bound = objects.flatMap(({ subjects = [] }) => subjects.map(({ name }: Rendered) => name));
    assert.deepEqual([...new Set(bound)].sort(), Object.keys(TABLE).sort());
    const { rules } = named(objects, "ClusterRole", "switchback-reader");
    assert.deepEqual([...new Set(rules.flatMap(({ verbs }: Rendered) => verbs))].sort(), ["get", "list"]);
  });

  const controller = (values: object) => rightsOf(render(values), "switchback-controller");
  const more = (values: object) => controller(values).filter((right) => !controller({}).includes(right));
  const discovery = { enabled: false };
  const given = { ...relayed, name: "given", classes: ["given"], clusterIPs: ["192.0.2.7"] };
  const custom = [{ group: "example.com", version: "v1", resource: "widgets", hostnames: "$.spec.host" }];
  for (const [what, config, rights] of [
    [
      "without discovery: the front of each relayed target, and no other Service",
      { discovery, targets: [relayed, direct, given] },
      ["list,watch namespaces", `list,watch services ${OURS}`, `create,patch services/${frontName("traefik")} ${OURS}`],
    ],
    [
      "with cert-manager: no Secret of the certificate, and no change of the webhook configuration",
      { certs: { mode: "cert-manager" } },
      [`get mutatingwebhookconfigurations/${WEBHOOK_CONFIGURATION}`],
    ],
    ["a custom kind", { sources: { custom } }, ["list,watch widgets"]],
    ...Object.entries({ ...PRESETS, ...ISTIO_KINDS }).map(
      ([name, { resource }]) =>
        [
          `the preset ${name}`,
          { sources: { presets: [name] } },
          // The host names of a VirtualService depend on its Gateways.
          [`list,watch ${resource}${name === "istio-virtualservice" ? ",gateways" : ""}`],
        ] as const,
    ),
  ] as const) {
    it(`the controller, ${what}`, () => assert.deepEqual(more({ config }).toSorted(), [...rights].toSorted()));
  }

  it("the controller reads the agents' Leases only if there are agents", () => {
    const leases = more({ agent: { enabled: true } });
    assert.ok(leases.length > 0 && leases.every((right) => right.endsWith("in switchback-agent")), leases.join());
  });
});

describe("admission policies", () => {
  const PODS = { podDns: { enabled: true, image: "registry.example.com/coredns:1" } };
  const POLICY = "ValidatingAdmissionPolicy";

  it("protect every Service of the chart from the controller", () => {
    const objects = render(PODS);
    const [{ expression }] = named(objects, POLICY, "switchback-own-objects").spec.validations;
    const services = objects.filter(({ kind }) => kind === "Service");
    for (const { metadata } of services) assert.ok(expression.includes(`'${metadata.name}'`), metadata.name);
  });

  it("have the proxies' selector from the configuration", () => {
    const selector = { tier: "edge", app: "relay" };
    const { validations } = named(render({ config: { proxy: { selector } } }), POLICY, "switchback-own-objects").spec;
    assert.ok(validations.some(({ expression }: Rendered) => expression.includes('{"app":"relay","tier":"edge"}')));
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
