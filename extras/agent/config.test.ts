import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { AGENT_SECTIONS } from "./config.ts";

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
