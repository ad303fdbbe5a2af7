import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { testSettings } from "#test/fakes/setting-limits.ts";
import { AGENT_SECTIONS, agentSettings, configOfNode, nodeHostsSettings } from "./config.ts";

testSettings(
  {
    "agent.healthPort": [0, 65_535],
    "agent.sweepSeconds": [1, 2_000_000],
    "agent.renewSeconds": [1, 2_000_000],
  },
  {
    "agent.namespace": [["agents"], ["Agents"]],
    "agent.node": [["n", undefined], [""]],
    "agent.kubeletRoot": [
      ["/var/lib/kubelet", "/k", "/a/..b", "/a/b..", "/.a"],
      ["", "/", "/a/", "a/b", "/a/..", "/./a", "/a/../b", "/a//b", "/a b"],
    ],
    "nodeHosts.names": [
      [
        [],
        ["*"],
        ["*.example.com", "registry.example.com"],
        Array.from({ length: 64 }, (_, index) => `n${index}.example.com`),
      ],
      [
        ["example"],
        ["a.*.com"],
        ["A.com"],
        ["a,b.com"],
        Array.from({ length: 65 }, (_, index) => `n${index}.example.com`),
      ],
    ],
    "nodeHosts.hostPath": [
      ["/etc/hosts", "/a"],
      ["", "/", "etc/hosts", "/etc/../hosts", "/etc/hosts/", "/a b"],
    ],
    "nodeHosts.path": [["/run/hosts"], ["", "/", "hosts", "/run/./hosts"]],
  },
  AGENT_SECTIONS,
);

for (const [path, problem] of [
  ["kubelet", "must be an absolute path without a trailing slash"],
  ["/var/../etc", "must not contain `.` or `..`"],
] as const) {
  test(`the path ${path} is refused with the reason`, () => {
    const message = `agent.kubeletRoot: ${problem}`;
    assert.throws(() => parseConfig({ agent: { kubeletRoot: path } }, AGENT_SECTIONS), {
      code: "config-invalid",
      message,
    });
  });
}

test("the defaults", () => {
  const config = parseConfig({}, AGENT_SECTIONS);
  assert.deepEqual(agentSettings(config), {
    enabled: false,
    namespace: "switchback-agent",
    kubeletRoot: "/var/lib/kubelet",
    confine: true,
    address: "::",
    healthPort: 8_083,
    sweepSeconds: 30,
    renewSeconds: 30,
  });
  assert.deepEqual(nodeHostsSettings(config), {
    names: [],
    remove: false,
    hostPath: "/etc/hosts",
    path: "/run/switchback-node/hosts",
  });
});

test("the variable of the downward API names the node, and without it the setting does", () => {
  const config = parseConfig({ agent: { node: "a", sweepSeconds: 7 } }, AGENT_SECTIONS);
  for (const [env, node] of [
    [{ SWITCHBACK_AGENT_NODE: "b" }, "b"],
    [{}, "a"],
  ] as const) {
    const settings = agentSettings(configOfNode(config, env));
    assert.deepEqual([settings.node, settings.sweepSeconds], [node, 7]);
  }
});
