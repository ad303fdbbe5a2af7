import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { WEBHOOK_CONFIGURATION } from "#certs/objects.ts";
import { PRESETS } from "#controller/sources/custom.ts";
import { ISTIO_KINDS } from "#controller/sources/istio.ts";
import { PUBLISHERS } from "#extras/publishers/names.ts";
import { publisherStateName } from "#extras/publishers/publisher-state.ts";
import { INJECT_KEY, VIA_KEY } from "#hostmap/metadata-keys.ts";
import { optInRules } from "#lib/config/opt-in.ts";
import { frontName } from "#lib/documents/listeners.ts";
import { isOptedIn } from "#lib/workloads/namespaces.ts";
import { podFacts } from "#lib/workloads/pods.ts";
import { OBJECTS } from "../published.ts";
import { COMPONENTS, configOf, direct, NAMESPACE, named, type Rendered, relayed, render } from "./rendered.ts";

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
  const webhooksOf = (objects: Rendered[]): Rendered[] =>
    named(objects, "MutatingWebhookConfiguration", WEBHOOK_CONFIGURATION).webhooks;
  /** The entries for pods. */
  const entriesOf = (objects: Rendered[]) =>
    webhooksOf(objects).filter(({ rules }) => rules[0].resources.includes("pods"));

  it("calls no webhook but ours, and blocks nothing: only a dry run of our own ConfigMap may fail", () => {
    for (const { clientConfig, failurePolicy, timeoutSeconds, ...entry } of webhooksOf(render())) {
      assert.deepEqual([clientConfig.service.namespace, clientConfig.service.name], [NAMESPACE, "switchback-webhook"]);
      assert.ok(timeoutSeconds <= 2, entry.name);
      if (failurePolicy === "Ignore") continue;
      assert.deepEqual(entry.namespaceSelector.matchExpressions, [
        { key: NAME_LABEL, operator: "In", values: [NAMESPACE] },
      ]);
      const [{ expression }] = entry.matchConditions;
      assert.equal(expression, `request.name == '${OBJECTS.reachable}' && has(request.dryRun) && request.dryRun`);
    }
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
        const pod = podFacts({ metadata: { namespace: name, labels: ofPod } });
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

// rights.test.ts shows that controller, webhook and proxy have only what they use.
describe("what an account may do", () => {
  const objects = render({ config: { restart: { namespaces: ["shop"] }, optIn: { namespaces: ["shop", "listed"] } } });
  const extras = render({
    agent: { enabled: true },
    podDns: { enabled: true, image: "registry.example.com/coredns:1" },
    config: { agent: { namespace: "agents" }, publishers: { coredns: { enabled: true } } },
  });
  const OURS = `in ${NAMESPACE}`;
  const READS_MAP = `list,watch configmaps/${OBJECTS.map} ${OURS}`;
  for (const [install, account, ...rights] of [
    [
      objects,
      "uninstall",
      "list pods",
      "get daemonsets/switchback-agent",
      `delete mutatingwebhookconfigurations/${WEBHOOK_CONFIGURATION}`,
      `get configmaps/switchback-config,${OBJECTS.targets},${PUBLISHERS.toSorted().map(publisherStateName)} ${OURS}`,
      `patch deployments/scale/switchback-controller,switchback-all ${OURS}`,
      `list,delete services ${OURS}`,
      `delete configmaps/${OBJECTS.map},${OBJECTS.targets} ${OURS}`,
      `delete secrets/${OBJECTS.ca},${OBJECTS.serving},switchback-cert-manager-ca,${OBJECTS.statusKey} ${OURS}`,
      `delete leases/${OBJECTS.lease} ${OURS}`,
      "get,patch deployments,statefulsets,daemonsets in shop",
      "get,patch deployments,statefulsets,daemonsets in listed",
    ],
    [
      extras,
      "agent",
      "get daemonsets,deployments,replicasets,statefulsets",
      "get,list,watch namespaces",
      "list,watch pods",
      READS_MAP,
      "get daemonsets/switchback-agent in agents",
      "create,patch,delete leases in agents",
    ],
    [extras, "dns", READS_MAP],
    [
      extras,
      "publisher-coredns",
      READS_MAP,
      `create configmaps ${OURS}`,
      `get,update,delete configmaps/${publisherStateName("coredns")} ${OURS}`,
      "get,patch configmaps/coredns in kube-system",
    ],
  ] as const) {
    it(account, () => assert.deepEqual(rightsOf(install, `switchback-${account}`).toSorted(), rights.toSorted()));
  }

  it("no other account has rights, and those of people are bound to nobody", () => {
    const bound = objects.flatMap(({ subjects = [] }) => subjects.map(({ name }: Rendered) => name));
    const accounts = [...COMPONENTS, "uninstall"].map((component) => `switchback-${component}`);
    assert.deepEqual(new Set(bound), new Set(accounts));
    const { rules } = named(objects, "ClusterRole", "switchback-reader");
    assert.deepEqual([...new Set(rules.flatMap(({ verbs }: Rendered) => verbs))].sort(), ["get", "list"]);
  });

  const controller = (values: object) => rightsOf(render(values), "switchback-controller");
  const usual = controller({});
  const given = { ...relayed, name: "given", classes: ["given"], clusterIPs: ["192.0.2.7"] };
  const custom = [{ group: "example.com", version: "v1", resource: "widgets", hostnames: "$.spec.host" }];
  for (const [what, values, rights] of [
    [
      "without discovery: the front of each relayed target, and no other Service",
      { config: { discovery: { enabled: false }, targets: [relayed, direct, given] } },
      ["list,watch namespaces", `list,watch services ${OURS}`, `create,patch services/${frontName("traefik")} ${OURS}`],
    ],
    [
      "with cert-manager: no Secret of the certificate, and no change of the webhook configuration",
      { config: { certs: { mode: "cert-manager" } } },
      [`get mutatingwebhookconfigurations/${WEBHOOK_CONFIGURATION}`],
    ],
    ["a custom kind", { config: { sources: { custom } } }, ["list,watch widgets"]],
    ["agents: their Leases", { agent: { enabled: true } }, ["list,watch leases in switchback-agent"]],
    ...Object.entries({ ...PRESETS, ...ISTIO_KINDS }).map(
      ([name, { resource }]) =>
        [
          `the preset ${name}`,
          { config: { sources: { presets: [name] } } },
          // The host names of a VirtualService depend on its Gateways.
          [`list,watch ${resource}${name === "istio-virtualservice" ? ",gateways" : ""}`],
        ] as const,
    ),
  ] as const) {
    it(`the controller, ${what}`, () => {
      const more = controller(values).filter((right) => !usual.includes(right));
      assert.deepEqual(more.toSorted(), [...rights].toSorted());
    });
  }
});
