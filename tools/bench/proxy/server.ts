import { loadConfig } from "#lib/config/load.ts";
import { createLogger } from "#lib/telemetry/log.ts";
import type { MakeEngine } from "#proxy/engine.ts";
import { runProxy } from "#proxy/run.ts";

// `node server.ts ENGINE WORKERS CONFIG`: the proxy as `switchback proxy` runs it, with this engine and this number
// of workers. By default the proxy chooses both for the machine, but a measurement needs fixed ones.

const ENGINES: Readonly<Record<string, (workers: number) => Promise<MakeEngine>>> = {
  portable: async () => (await import("#proxy/portable/engine.ts")).makePortableEngine,
  // Loaded only if needed, because it loads a native library.
  linux: async (workers) => (await import("#proxy/linux/engine.ts")).linuxEngine(workers),
};

const [engine = "", workers = "", file = ""] = process.argv.slice(2);
const make = ENGINES[engine];
if (make === undefined) throw new Error(`engine ${engine}: expected ${Object.keys(ENGINES).join(" or ")}`);
const { config } = await loadConfig({ file, env: {}, set: [] });
const proxy = await runProxy(config, {
  log: createLogger(config.log, "proxy"),
  makeEngine: await make(Number(workers)),
});
process.once("SIGTERM", () => void proxy.stop());
