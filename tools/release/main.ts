import { join } from "node:path";
import { progressLines } from "#test/cluster/progress.ts";
import { readArguments } from "./arguments.ts";
import { describeCheckout } from "./checkout.ts";
import { ReleaseError } from "./error.ts";
import { refreshBase } from "./image/refresh.ts";
import { makeRelease } from "./make.ts";
import { PARTS } from "./parts.ts";
import { readSigningKey, SIGNING_KEY_VARIABLE } from "./sign.ts";

// `npm run release -- --out FOLDER`: makes all files of a release from this checkout, with the same bytes each time.
// It publishes nothing. `npm run release -- --refresh-base`: writes the current Debian packages of the image to
// tools/release/image/base.json.

const SOURCE = join(import.meta.dirname, "..", "..");

try {
  const args = process.argv.slice(2);
  if (args.length === 1 && args[0] === "--refresh-base") await refreshBase(progressLines());
  else await make(args);
} catch (error) {
  if (!(error instanceof ReleaseError)) throw error;
  process.stderr.write(`release: ${error.message}\n`);
  process.exitCode = 2;
}

async function make(args: readonly string[]): Promise<void> {
  const { parts, dirty, ...settings } = readArguments(args, PARTS);
  const signingKey = readSigningKey(process.env[SIGNING_KEY_VARIABLE]);
  // Programs that a part starts do not need the key.
  delete process.env[SIGNING_KEY_VARIABLE];
  const checkout = describeCheckout(SOURCE, { given: process.env.SOURCE_DATE_EPOCH, dirty });
  await makeRelease({ ...checkout, ...settings, progress: progressLines() }, parts, signingKey);
}
