import { existsSync, globSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises";
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

/** Starts a real Chromium, of the user's cache or else of Debian's servers: nothing is installed. */
export async function startChromium(): Promise<Browser> {
  const root = await unpackedChromium();
  const libraries = globSync("usr/lib/*-linux-gnu{,/pulseaudio}", { cwd: root }).map((path) => join(root, path));
  return await chromium.launch({
    executablePath: join(root, PROGRAM),
    // A sandbox of its own takes namespaces that root does not have everywhere; the pages are ours.
    chromiumSandbox: false,
    env: { PATH: process.env.PATH ?? "", LD_LIBRARY_PATH: libraries.join(":"), XDG_DATA_HOME: join(root, "usr/share") },
  });
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
