import assert from "node:assert/strict";
import { test } from "node:test";
import { Bed } from "#tools/bench/bed.ts";
import { memoryAfter, startPods } from "#tools/bench/footprint.ts";

/** Long enough for a rough figure; `npm run bench -- footprint` gives a reliable one. */
const SETTLE_MS = 3_000;

test("the six pods of the default install are ready from the image's bundle; their memory is printed", {
  skip: process.platform !== "linux" && "memory is read from /proc",
}, async (t) => {
  const bed = await Bed.open();
  try {
    const memory = await memoryAfter(SETTLE_MS, await startPods(bed, 0));
    const parts = Object.entries(memory).map(
      ([name, { anonymous, rss }]) => `${name} ${anonymous.toFixed(1)} MB anonymous (${rss.toFixed(0)} resident)`,
    );
    const line = parts.join(", ");
    t.diagnostic(`footprint: ${line}`);
    assert.doesNotMatch(line, /NaN|\b0\.0 /);
  } finally {
    await bed.close();
  }
});
