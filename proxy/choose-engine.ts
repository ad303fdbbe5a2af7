import type { ProxyConfig } from "#lib/config/schema.ts";
import { describeError, SwitchbackError } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { MakeEngine } from "./engine.ts";
import { checkEngine } from "./engine-check.ts";
import { makePortableEngine } from "./portable/engine.ts";

type EngineConfig = Pick<ProxyConfig, "engine" | "workers">;

/** Returns the linux engine after checking that it relays on this machine. Throws the reason why it does not. */
async function provenLinuxEngine(workers: number): Promise<MakeEngine> {
  if (process.platform !== "linux") throw new Error(`the platform is ${process.platform}`);
  // Loaded on demand: its library has no build for some platforms.
  const { linuxEngine } = await import("./linux/engine.ts");
  await checkEngine(linuxEngine(1));
  return linuxEngine(workers);
}

/**
 * Chooses and logs the engine for the configuration. `auto`: the linux engine if it works, else the portable one with the reason in the
 * log. Throws `engine-unavailable` if the config requires the linux engine and it does not work.
 */
export async function chooseEngine(
  { engine, workers }: EngineConfig,
  log: Logger,
  linux: (workers: number) => Promise<MakeEngine> = provenLinuxEngine,
): Promise<MakeEngine> {
  if (engine === "portable") return makePortableEngine;
  try {
    const makeEngine = await linux(workers);
    log.info({ engine: "linux" }, "the linux engine relays: it has been seen to work here");
    return makeEngine;
  } catch (cause) {
    if (engine === "linux") {
      throw new SwitchbackError("engine-unavailable", "the linux engine does not work here (proxy.engine)", { cause });
    }
    log.warn(
      { engine: "portable", err: describeError(cause) },
      "the linux engine does not work here: the portable one relays",
    );
    return makePortableEngine;
  }
}
