import type { ProxyConfig } from "#lib/config/schema.ts";
import { describeError, SwitchbackError } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { MakeEngine } from "./engine.ts";
import { checkEngine } from "./engine-check.ts";
import { makePortableEngine } from "./portable/engine.ts";

type EngineConfig = Pick<ProxyConfig, "engine" | "workers">;

/** Returns the linux engine after a check that it relays on this machine. Throws the reason if it does not. */
async function checkedLinuxEngine(workers: number): Promise<MakeEngine> {
  if (process.platform !== "linux") throw new Error(`the platform is ${process.platform}`);
  // Loaded here, because its library has no build for some platforms.
  const { linuxEngine } = await import("./linux/engine.ts");
  await checkEngine(linuxEngine(1));
  return linuxEngine(workers);
}

/**
 * Chooses and logs the engine. `auto` means the linux engine if it works, else the portable one; the log has the
 * reason. Throws `engine-unavailable` if the config requires the linux engine and it does not work.
 */
export async function chooseEngine(
  { engine, workers }: EngineConfig,
  log: Logger,
  linux: (workers: number) => Promise<MakeEngine> = checkedLinuxEngine,
): Promise<MakeEngine> {
  if (engine === "portable") return makePortableEngine;
  try {
    const makeEngine = await linux(workers);
    log.info({ engine: "linux" }, "linux engine selected: its self-test succeeded");
    return makeEngine;
  } catch (cause) {
    if (engine === "linux") {
      throw new SwitchbackError(
        "engine-unavailable",
        "the linux engine is not available on this machine (proxy.engine)",
        { cause },
      );
    }
    log.warn(
      { engine: "portable", err: describeError(cause) },
      "linux engine not available: using the portable engine",
    );
    return makePortableEngine;
  }
}
