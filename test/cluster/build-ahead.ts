import { ADDON_BINARIES } from "./addons/all.ts";
import { binaries, INTEGRATION_BINARIES } from "./binaries.ts";
import { NODE_BINARIES } from "./node/up.ts";
import { NotHere } from "./not-here.ts";

// Builds what the integration tests need or, with `e2e`, what a whole node needs. A failed build does not fail this
// program: a test that needs the binary builds it again, and reports the failure.

try {
  await binaries(
    process.argv.includes("e2e") ? [...NODE_BINARIES, ...ADDON_BINARIES] : [...INTEGRATION_BINARIES, "caddy"],
  );
} catch (error) {
  if (!(error instanceof NotHere)) process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
}
