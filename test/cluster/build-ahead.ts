import { constants, setPriority } from "node:os";
import { ADDON_BINARIES } from "./addons/all.ts";
import { binaries, INTEGRATION_BINARIES } from "./binaries.ts";
import { NODE_BINARIES } from "./node/up.ts";
import { NotHere } from "./not-here.ts";

// Builds what later tests need, at the lowest priority, while something else runs. `e2e`: also builds what a whole node
// needs. A failed build does not fail this program: a test that needs the binary builds it again, and reports the
// failure.

setPriority(constants.priority.PRIORITY_LOW);
try {
  await binaries([...INTEGRATION_BINARIES, "caddy"]);
  if (process.argv.includes("e2e")) await binaries([...NODE_BINARIES, ...ADDON_BINARIES]);
} catch (error) {
  if (!(error instanceof NotHere)) process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
}
