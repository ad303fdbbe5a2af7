import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type Install, notesOf, testInstalls } from "#test/integration/rendered.ts";

// What the chart renders for the agents. Their rights are in test/integration/chart-rights.test.ts.

const AGENTS = "their-own";
const config = { agent: { namespace: AGENTS, kubeletRoot: "/data/kubelet" } };
const SET = "DaemonSet switchback-agent";
const POD = `${SET} spec template spec`;
const LEVEL = `Namespace ${AGENTS} metadata labels pod-security.kubernetes.io/enforce`;

describe("the agents", () => {
  /** With these names for nodes, the agents see the hosts file at `path`, if any, and otherwise only pods. */
  const see = (nodeHosts: object, path?: string, marked?: "true"): Install => [
    `with nodeHosts ${JSON.stringify(nodeHosts)} see only their node's pods and ${path ?? "nothing else"}`,
    { agent: { enabled: true }, config: { ...config, nodeHosts } },
    {
      [`${POD} volumes pods hostPath path`]: "/data/kubelet/pods",
      [`${POD} containers 0 volumeMounts pods mountPath`]: "/data/kubelet/pods",
      [`${POD} volumes node-hosts hostPath path`]: path,
      [`${POD} containers 0 volumeMounts node-hosts mountPath`]: path && "/run/switchback-node/hosts",
      [`${POD} volumes ${path === undefined ? 2 : 3}`]: undefined,
      [`${SET} metadata annotations switchback.dev/node-hosts`]: marked,
    },
  ];
  testInstalls(
    see({}),
    see({ names: ["*.example.com"] }, "/etc/hosts", "true"),
    see({ remove: true }, "/etc/hosts"),
    see({ names: ["*.example.com"], hostPath: "/other" }, "/other", "true"),
    [
      "have their own namespace, at the level that hostPath needs",
      { agent: { enabled: true }, config },
      { [LEVEL]: "privileged", [`${SET} metadata namespace`]: AGENTS },
    ],
    [
      "can have a namespace that exists",
      { agent: { enabled: true, createNamespace: false }, config },
      { [`Namespace ${AGENTS}`]: undefined },
    ],
  );

  it("have a note about names for nodes: pods on the host's network inherit them, or agents are missing", () => {
    const names = { config: { nodeHosts: { names: ["registry.example.com"] } } };
    assert.match(
      notesOf({ agent: { enabled: true }, ...names }),
      /registry\.example\.com .*\n?.*host's network inherit/,
    );
    assert.match(notesOf(names), /WARNING: config\.nodeHosts\.names does nothing without agent\.enabled/);
  });
});
