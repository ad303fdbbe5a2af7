import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { bundleProduct } from "#manifests/bundle.ts";
import { openBed } from "#tools/bench/controller/bed.ts";
import { COMPONENTS, type Footprints, footprintsAfter, startAll, stopAll } from "#tools/bench/footprint/pods.ts";
import type { Footprint } from "#tools/bench/process.ts";

const TOP = join(import.meta.dirname, "..", "..");
/** Long enough for a rough figure; `npm run bench -- footprint` gives a reliable one. */
const SETTLE_MS = 3_000;

test("the six pods of the default install are ready from the image's bundle; their memory is printed", {
  skip: process.platform !== "linux" && "memory is read from /proc",
}, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "switchback-footprint-"));
  try {
    await bundleProduct(folder);
    const { each, sum } = await footprintsOf(join(folder, "cli", "main.js"));
    const parts = COMPONENTS.map((component) => textOf(component, each[component]));
    const line = [...parts, textOf("six pods", sum)].join(", ");
    t.diagnostic(`footprint: ${line}`);
    assert.doesNotMatch(line, /NaN|\b0\.0 /);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

async function footprintsOf(program: string): Promise<Footprints> {
  const bed = await openBed(TOP, program, 0);
  try {
    const pods = await startAll(bed, 0);
    return await footprintsAfter(SETTLE_MS, pods).finally(() => stopAll(pods));
  } finally {
    await bed.close();
  }
}

function textOf(name: string, { anonymous, rss }: Footprint): string {
  return `${name} ${anonymous.toFixed(1)} MB anonymous (${rss.toFixed(0)} resident)`;
}
