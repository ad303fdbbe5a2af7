import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { RULES } from "#test/fakes/rollout-world.ts";
import { restartRules } from "./restart-limits.ts";

test("every limit is configurable, and the defaults are those of the other tests", () => {
  assert.deepEqual(restartRules(parseConfig({})), RULES);
  const restart = {
    dryRun: true,
    debounceSeconds: 1,
    maxDebounceSeconds: 2,
    minIntervalSeconds: 3,
    maxIntervalSeconds: 4,
    dailyBudget: 5,
    vanishedSeconds: 6,
    revertSeconds: 7,
    rolloutSeconds: 8,
    holdAfter: 9,
    holdSeconds: 10,
  };
  const config = parseConfig({ restart, pods: { agentSilenceSeconds: 11 } });
  assert.deepEqual(restartRules(config), {
    dryRun: true,
    debounceMs: 1_000,
    maxDebounceMs: 2_000,
    minIntervalMs: 3_000,
    maxIntervalMs: 4_000,
    dailyBudget: 5,
    vanishedMs: 6_000,
    revertMs: 7_000,
    rolloutMs: 8_000,
    holdAfter: 9,
    holdMs: 10_000,
    updaterMs: 11_000,
  });
  const { namespaces: _, ...settings } = config.restart;
  assert.deepEqual(settings, restart, "a setting that this test does not know");
});

test("the maximum debounce is at least the debounce", () => {
  const rules = restartRules(parseConfig({ restart: { debounceSeconds: 60 } }));
  assert.equal(rules.maxDebounceMs, 60_000);
});
