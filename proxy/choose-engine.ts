import type { ProxyConfig } from "../config/schema.ts";
import { describeError, SwitchbackError } from "../errors/errors.ts";
import type { Logger } from "../telemetry/log.ts";
import type { MakeEngine } from "./engine.ts";
import { checkEngine } from "./engine-check.ts";
import { makePortableEngine } from "./portable/engine.ts";

type Wanted = Pick<ProxyConfig, "engine" | "workers">;

/** Makes the linux engine, once it has been seen to relay on this machine. Throws whatever is in the way of that. */
async function provenLinuxEngine(workers: number): Promise<MakeEngine> {
  if (process.platform !== "linux") throw new Error(`this is ${process.platform}`);
  // Loaded only where it is wanted: its library has no build for every machine.
  const { linuxEngine } = await import("./linux/engine.ts");
  await checkEngine(linuxEngine(1));
  return linuxEngine(workers);
}

/**
 * The engine that the configuration asks for; a line in the log says which. `auto`: the linux engine where it works, else the portable
 * one, and the line says why. Throws `engine-unavailable` if the linux engine is asked for and does not work here.
 */
export async function chooseEngine(
  { engine, workers }: Wanted,
  log: Logger,
  linux: (workers: number) => Promise<MakeEngine> = provenLinuxEngine,
): Promise<MakeEngine> {
  if (engine === "portable") return makePortableEngine;
  try {
    const made = await linux(workers);
    log.info({ engine: "linux" }, "the linux engine relays: it has been seen to work here");
    return made;
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
