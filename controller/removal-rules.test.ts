import assert from "node:assert/strict";
import { test } from "node:test";
import { configSchema } from "#lib/config/schema.ts";
import { removalRules } from "./removal-rules.ts";

test("the config's seconds are milliseconds, and its names are a count", () => {
  const config = configSchema.parse({ map: { vanishSeconds: 7, guardNames: 11, guardHoldSeconds: 13 } });
  assert.deepEqual(removalRules(config), { vanishMs: 7_000, guardNames: 11, holdMs: 13_000 });
});
