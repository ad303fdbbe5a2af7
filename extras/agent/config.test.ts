import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { AGENT_SECTIONS, agentSettings, configOfNode } from "./config.ts";

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
