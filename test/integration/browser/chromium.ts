import { globSync } from "node:fs";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, chromium } from "playwright-core";
import { unpackedDebian, withMissing } from "../../cluster/debian.ts";

/** Debian's build without a screen; what it depends on comes with it, where this machine lacks it. */
const PACKAGE = "chromium-headless-shell";
const PROGRAM = "usr/lib/chromium/chromium-headless-shell";

/**
 * Starts a real Chromium, of the user's cache or else of Debian's servers: nothing is installed. `within`: the
 * command that starts it in another namespace; what it is given comes after it.
 */
export async function startChromium(within: readonly string[] = []): Promise<Browser> {
  const root = await unpackedDebian("chromium", async () => [...(await withMissing(PACKAGE)), "chromium-common"]);
  const libraries = globSync("usr/lib/*-linux-gnu{,/pulseaudio}", { cwd: root }).map((path) => join(root, path));
  return await chromium.launch({
    executablePath: await programOf(join(root, PROGRAM), within),
    // A sandbox of its own takes namespaces that root does not have everywhere; the pages are ours.
    chromiumSandbox: false,
    env: { PATH: process.env.PATH ?? "", LD_LIBRARY_PATH: libraries.join(":"), XDG_DATA_HOME: join(root, "usr/share") },
  });
}

/** A program that can be started without arguments of others before its own. */
async function programOf(program: string, within: readonly string[]): Promise<string> {
  if (within.length === 0) return program;
  const script = join(await mkdtemp(join(tmpdir(), "switchback-chromium-")), "chromium");
  const words = [...within, program].map((word) => `'${word}'`).join(" ");
  await writeFile(script, `#!/bin/sh\nrm -r "$(dirname "$0")"\nexec ${words} "$@"\n`, { mode: 0o755 });
  return script;
}
