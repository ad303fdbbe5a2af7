import { globSync } from "node:fs";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, chromium } from "playwright-core";
import { unpackedDebian, withMissing } from "../../cluster/debian.ts";

/** Debian's headless build. The dependencies that this machine lacks are downloaded with it. */
const PACKAGE = "chromium-headless-shell";
const PROGRAM = "usr/lib/chromium/chromium-headless-shell";

/**
 * Starts a real Chromium from the user's cache, or else from Debian's servers: nothing is installed. `within` is the
 * command that starts it in another namespace; Chromium's own command follows it.
 */
export async function startChromium(within: readonly string[] = []): Promise<Browser> {
  const root = await unpackedDebian("chromium", async () => [...(await withMissing(PACKAGE)), "chromium-common"]);
  const libraries = globSync("usr/lib/*-linux-gnu{,/pulseaudio}", { cwd: root }).map((path) => join(root, path));
  return await chromium.launch({
    executablePath: await programOf(join(root, PROGRAM), within),
    // Chromium's sandbox needs namespaces that root does not have everywhere, and the pages are ours.
    chromiumSandbox: false,
    env: { PATH: process.env.PATH ?? "", LD_LIBRARY_PATH: libraries.join(":"), XDG_DATA_HOME: join(root, "usr/share") },
  });
}

/** A program that starts `program` by way of `within`, for callers that cannot put arguments before its own. */
async function programOf(program: string, within: readonly string[]): Promise<string> {
  if (within.length === 0) return program;
  const script = join(await mkdtemp(join(tmpdir(), "switchback-chromium-")), "chromium");
  const words = [...within, program].map((word) => `'${word}'`).join(" ");
  await writeFile(script, `#!/bin/sh\nrm -r "$(dirname "$0")"\nexec ${words} "$@"\n`, { mode: 0o755 });
  return script;
}
