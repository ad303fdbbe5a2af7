import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fuzz, inputOf } from "./fuzz.ts";
import { SURFACES } from "./surfaces.ts";

/** Inputs for each surface. `npm run attack -- --minutes 30` tries millions. */
const INPUTS = 300;
const SEED = 1;
/** The rule is 50 ms. The test allows more, because other tests run on the same cores and share their caches. */
const MAX_MS = 250;

describe("no input makes a surface throw or block the thread", () => {
  for (const surface of SURFACES) {
    it(surface.name, () => {
      const { faults } = fuzz(surface, SEED, MAX_MS, (inputs) => inputs >= INPUTS);
      assert.deepEqual(faults, []);
    });
  }
});

it("a surface that throws or blocks the thread is reported with the number of the input", () => {
  const spin = () => {
    const before = process.threadCpuUsage().user;
    while (process.threadCpuUsage().user - before < 3_000);
  };
  const surface = {
    name: "weak",
    seeds: ["a"],
    feed: (input: unknown) => (String(input).length > 2 ? assert.fail("long") : spin()),
  };
  const { faults, inputs } = fuzz(surface, SEED, 2, (count) => count >= 100);
  assert.equal(faults.length, 5, "it ends at the fifth");
  assert.ok(inputs <= 100);
  for (const { input, what } of faults) {
    assert.match(what, String(inputOf(surface, input)).length > 2 ? /long/ : /ms of CPU time/);
  }
});
