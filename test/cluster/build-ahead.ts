import { constants, setPriority } from "node:os";
import { ADDON_BINARIES } from "./addons/all.ts";
import { binaries, INTEGRATION_BINARIES, Unavailable } from "./binaries.ts";
import { NODE_BINARIES } from "./node/up.ts";

// Builds what later tests need while something else runs, at the lowest priority. `e2e`: what a whole node needs, too.
// A build that fails is not this program's failure: a test that needs the binary builds it again, and says why it
// fails.

setPriority(constants.priority.PRIORITY_LOW);
try {
  await binaries([...INTEGRATION_BINARIES, "caddy"]);
  if (process.argv.includes("e2e")) await binaries([...NODE_BINARIES, ...ADDON_BINARIES]);
} catch (error) {
  if (!(error instanceof Unavailable)) process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
}
