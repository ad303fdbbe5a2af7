import { existsSync, globSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type Browser, chromium } from "playwright-core";
import { withLock } from "../cluster/lock.ts";
import { run } from "../cluster/node/run.ts";
import { userCache } from "../cluster/product-image.ts";

/** Debian's build without a screen; what it depends on comes with it, where this machine lacks it. */
const PACKAGE = "chromium-headless-shell";
const PROGRAM = "usr/lib/chromium/chromium-headless-shell";
const APT = ["apt-get", "-q", "-o", "APT::Sandbox::User=root"];

/** Why the browser's tests cannot run here; undefined: they can. */
export function whyNoChromium(): string | undefined {
  return existsSync("/usr/bin/apt-get") ? undefined : "Chromium comes from Debian's packages, and there is no apt here";
}

/**
 * Starts a real Chromium, of the user's cache or else of Debian's servers: nothing is installed. `within`: the command that starts it in
 * another namespace; what it is given comes after it.
 */
export async function startChromium(within: readonly string[] = []): Promise<Browser> {
  const root = await unpackedChromium();
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

/** Where its packages are unpacked. */
async function unpackedChromium(): Promise<string> {
  const target = userCache("chromium");
  if (existsSync(target)) return target;
  await mkdir(dirname(target), { recursive: true });
  // One process downloads, the others wait.
  await withLock(
    `${target}.lock`,
    async () => {
      if (!existsSync(target)) await unpackInto(target);
    },
    () => {},
  );
  return target;
}

async function unpackInto(target: string): Promise<void> {
  const folder = await mkdtemp(`${target}-`);
  try {
    await download(folder).catch(async () => {
      // The machine's lists are older than Debian's servers.
      await run("apt-get", "update", "-q");
      await download(folder);
    });
    const packages = (await readdir(folder)).filter((file) => file.endsWith(".deb"));
    for (const file of packages) await run("dpkg-deb", "--extract", join(folder, file), join(folder, "root"));
    await rename(join(folder, "root"), target);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Downloads the packages that an installation would, into `folder`. */
async function download(folder: string): Promise<void> {
  const simulated = await run("apt-get", "-s", "install", "--no-install-recommends", PACKAGE);
  const missing = [...simulated.matchAll(/^Inst (\S+)/gm)].map(([, name = ""]) => name);
  await run("env", "-C", folder, ...APT, "download", ...new Set([...missing, PACKAGE, "chromium-common"]));
}
