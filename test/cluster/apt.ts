import { userCache } from "./binaries.ts";
import { withLock } from "./lock.ts";
import { run } from "./node/run.ts";

/**
 * Runs `apt-get` in `folder`, and asks nobody. One at a time on this machine: a second one fails at apt's own locks.
 * @returns its standard output.
 */
export async function apt(args: readonly string[], folder = "/"): Promise<string> {
  const command = ["-C", folder, "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", ...args];
  return await withLock(
    userCache("apt.lock"),
    async () => await run("env", ...command),
    () => {},
  );
}
