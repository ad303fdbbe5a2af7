import type { Config } from "../config/schema.ts";
import { runProxy } from "../proxy/run.ts";
import type { Running, Surroundings } from "./serve.ts";

/** `switchback proxy`: needs nothing of the API server, only DNS. */
export function startProxy(config: Config, { log, clusterDomain }: Surroundings): Promise<Running> {
  return runProxy(config, { log, clusterDomain });
}
