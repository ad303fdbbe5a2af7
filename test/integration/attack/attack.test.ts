import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { attempt } from "./attack.ts";
import { RELAY_ATTACKS } from "./attacks/relay.ts";
import { ADDED_CONFIG, attacksOn } from "./attacks.ts";
import { type Stage, startStage } from "./stage.ts";

// Other tests run on the same cores at the same time, so nothing is asserted about delays: `npm run attack` measures
// them. Without the protection against an attack, most admissions fail.
const ADMISSIONS_PER_SECOND = 20;
const MOST_FAILED = 0.05;

/**
 * Attacks that differ when one process does the work of three. `npm run attack -- --profile small` tries all attacks.
 */
const OF_ONE_PROCESS = [...RELAY_ATTACKS, ...attacksOn("small").filter(({ by }) => by === "stolen token")];

for (const [profile, attacks] of [
  ["default", attacksOn("default")],
  ["small", OF_ONE_PROCESS],
] as const)
  describe(`in the profile ${profile} an attack hurts nobody else`, () => {
    let stage: Stage;
    before(async () => {
      stage = await startStage({ rate: ADMISSIONS_PER_SECOND, profile, config: ADDED_CONFIG });
    });
    after(() => stage?.stop());

    for (const attack of attacks) {
      it(`${attack.by}: ${attack.name}`, async () => {
        const { held, outcome } = await attempt(stage, attack, (load) => load.failed > load.admissions * MOST_FAILED);
        assert.ok(held, outcome);
      });
    }
  });
