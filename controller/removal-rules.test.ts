import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { removalRules } from "./removal-rules.ts";

test("seconds of the config become milliseconds, and the number of names stays a count", () => {
  const config = parseConfig({ map: { vanishSeconds: 7, guardNames: 11, guardHoldSeconds: 13 } });
  assert.deepEqual(removalRules(config), { vanishMs: 7_000, guardNames: 11, holdMs: 13_000 });
});
