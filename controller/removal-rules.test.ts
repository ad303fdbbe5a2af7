import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { removalRules } from "./removal-rules.ts";

test("the config's seconds are milliseconds, and its names are a count", () => {
  const config = parseConfig({ map: { vanishSeconds: 7, guardNames: 11, guardHoldSeconds: 13 } });
  assert.deepEqual(removalRules(config), { vanishMs: 7_000, guardNames: 11, holdMs: 13_000 });
});
