import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { OBJECTS } from "../published.ts";
import { COMPONENTS, NAMESPACE, notesOf, pod, podOf, render, renderText, testInstalls } from "./rendered.ts";

// Values that change the chart's pods, accounts and notes.

const AGENT = { agent: { enabled: true } };
const ALL = [...COMPONENTS, "agent"] as const;
const AGENT_POD = "DaemonSet switchback-agent spec template spec";

describe("a setting of all pods, which one component replaces", () => {
  for (const [field, all, own, place = `spec ${field}`] of [
    ["nodeSelector", { pool: "infra" }, { pool: "edge" }],
    ["affinity", { nodeAffinity: {} }, { podAffinity: {} }],
    ["priorityClassName", "a", "b"],
    ["dnsPolicy", "None", "Default"],
    ["dnsConfig", { nameservers: ["192.0.2.1"] }, { searches: ["a.example.com"] }],
    ["topologySpreadConstraints", [{ topologyKey: "a" }], [{ topologyKey: "b" }]],
    ["annotations", { a: "1" }, { a: "2" }, "metadata annotations a"],
    ["labels", { a: "1" }, { a: "2" }, "metadata labels a"],
    ["extraEnv", [{ name: "a", value: "1" }], [{ name: "a", value: "2" }], "spec containers 0 env a"],
    ["extraVolumes", [{ name: "a", emptyDir: {} }], [{ name: "a", configMap: { name: "a" } }], "spec volumes a"],
    ["extraVolumeMounts", [{ name: "a", mountPath: "/1" }], [{ name: "a" }], "spec containers 0 volumeMounts a"],
  ] as const) {
    const value = (of: typeof all | typeof own) => {
      if (place === `spec ${field}`) return of;
      return Array.isArray(of) ? of[0] : (of as { a: string }).a;
    };
    const expected = COMPONENTS.map((component) => [
      `Deployment switchback-${component} spec template ${place}`,
      value(component === "proxy" ? own : all),
    ]);
    // The agents have their own priority.
    if (field !== "priorityClassName") expected.push([`DaemonSet switchback-agent spec template ${place}`, value(all)]);
    const values = { ...AGENT, pods: { [field]: all }, proxy: { [field]: own } };
    testInstalls([field, values, Object.fromEntries(expected)]);
  }
});

const SECCOMP = { seccompProfile: { type: "RuntimeDefault" } };
const GROUP = { runAsUser: 1000660000, fsGroup: 1000660000 };
const budget = (component: string) => `PodDisruptionBudget switchback-${component} spec minAvailable`;
const tls = "/etc/switchback/tls";
describe("pods", () => {
  testInstalls(
    [
      "each key of their security contexts replaces one of ours; the agents have their own",
      { ...AGENT, pods: { securityContext: GROUP, containerSecurityContext: { readOnlyRootFilesystem: false } } },
      {
        [pod("webhook", "securityContext")]: { runAsNonRoot: true, ...SECCOMP, ...GROUP },
        [pod("webhook", "containers 0 securityContext readOnlyRootFilesystem")]: false,
        [pod("webhook", "containers 0 securityContext allowPrivilegeEscalation")]: false,
        [`${AGENT_POD} securityContext`]: { runAsUser: 0, runAsGroup: 0, ...SECCOMP },
      },
    ],
    [
      "get the time to drain: the sleep of preStop, the drain, and a margin",
      { config: { proxy: { drainSeconds: 119.5 } } },
      {
        [pod("proxy", "containers 0 lifecycle preStop sleep seconds")]: 10,
        [pod("proxy", "terminationGracePeriodSeconds")]: 10 + 120 + 10,
      },
    ],
    [
      "of the profile small get the time for both drains, and a budget if there are two",
      { profile: "small", all: { replicas: 2 } },
      { [pod("all", "terminationGracePeriodSeconds")]: 10 + 30 + 10 + 10, [budget("all")]: 1 },
    ],
    [
      "of webhook and proxy are kept by a budget, if there are two",
      { webhook: { replicas: 1 } },
      { [budget("webhook")]: undefined, [budget("proxy")]: 1, [budget("controller")]: undefined },
    ],
    [
      "have no budget if the values say so",
      { pods: { podDisruptionBudget: false }, proxy: { podDisruptionBudget: true } },
      { [budget("webhook")]: undefined, [budget("proxy")]: 1 },
    ],
    [
      "mount the targets and the given certificate where the program looks (chart.test.ts has the config)",
      { profile: "small", config: { certs: { mode: "files" } }, certFiles: { secretName: "mine" } },
      {
        [pod("all", "containers 0 volumeMounts tls mountPath")]: tls,
        [pod("all", "volumes tls secret secretName")]: "mine",
        [pod("all", "containers 0 volumeMounts targets mountPath")]: "/etc/switchback/targets",
        [pod("all", "volumes targets configMap")]: { name: OBJECTS.targets, optional: true },
      },
    ],
    [
      "of a webhook in the node's network use the cluster's DNS, roll out on full nodes, and have no NetworkPolicy",
      { webhook: { hostNetwork: true }, networkPolicy: { enabled: true } },
      {
        [pod("webhook", "hostNetwork")]: true,
        [pod("webhook", "dnsPolicy")]: "ClusterFirstWithHostNet",
        "Deployment switchback-webhook spec strategy rollingUpdate": { maxUnavailable: 1 },
        "Deployment switchback-proxy spec strategy": undefined,
        // NetworkPolicies do not apply to pods in the host's network.
        "NetworkPolicy switchback-webhook": undefined,
      },
    ],
    [
      "can have an account that exists",
      { proxy: { serviceAccount: { create: false } } },
      { "ServiceAccount switchback-proxy": undefined, [pod("proxy", "serviceAccountName")]: "switchback-proxy" },
    ],
  );

  it("roll when the config changes, and only then", () => {
    const template = (values: object) => podOf(render(values), "proxy");
    assert.deepEqual(template({}), template({ proxy: { replicas: 5 } }));
    assert.notDeepEqual(template({}), template({ config: { webhook: { healthPort: 9081 } } }));
  });

  it("have the account of the values, as RBAC and the admission policies do", () => {
    const common = { ...AGENT, config: { restart: { namespaces: ["shop"] } } };
    const own = (component: string) => ({ serviceAccount: { name: `own-${component}` } });
    const accounts = Object.fromEntries(ALL.map((component) => [component, own(component)]));
    const text = renderText({ ...common, ...accounts, agent: { ...AGENT.agent, ...own("agent") } });
    const usual =
      /(serviceAccountName: |serviceaccount:\S+:|ServiceAccount\n(metadata:\n)? +name: )switchback-(?!uninst)/;
    assert.doesNotMatch(text, usual);
    assert.equal(text.replaceAll(/\bown-(?=controller|webhook|proxy|agent)/g, "switchback-"), renderText(common));
  });
});

it("the notes after an install name what opted in, and what to do if the hook of an uninstall cannot start", () => {
  const [usual, listed] = [{}, { config: { optIn: { namespaces: ["cert-manager", "shop"] } } }].map(notesOf);
  assert.match(listed ?? "", /opted in by config\.optIn\.namespaces: cert-manager, shop\.\n/);
  assert.match(usual ?? "", /Nothing changes for a pod until it opts in:\n/);
  assert.match(usual ?? "", new RegExp(`helm uninstall switchback --namespace ${NAMESPACE} --no-hooks\n`));
  assert.doesNotMatch(notesOf({ uninstall: { enabled: false } }), /--no-hooks/);
});
