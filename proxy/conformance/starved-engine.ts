import type { MakeEngine, RelaySpec } from "../engine.ts";

/*
 * A process in which only one engine opens files. Its parent has limited the number of files that it may open.
 * Arguments: the engine's name, plan as JSON. Communicates with its parent over IPC.
 */
export interface Starved {
  readonly port: number;
  readonly lines: readonly string[];
  readonly refused: number;
}

/** Loaded on demand, so that the process opens the files of only one engine. */
const ENGINES = {
  linux: async (): Promise<MakeEngine> => (await import("../linux/engine.ts")).linuxEngine(0),
  portable: async (): Promise<MakeEngine> => (await import("../portable/engine.ts")).makePortableEngine,
};
export type EngineName = keyof typeof ENGINES;

const [, , name = "", plan = ""] = process.argv;
const make = await ENGINES[name as EngineName]();

const lines: string[] = [];
const note = (_fields: object, message: string): void => void lines.push(message);
const engine = make({
  limits: {
    maxConnections: 1000,
    maxConnectionsPerSource: 1000,
    connectTimeoutMs: 5000,
    idleTimeoutMs: 0,
    halfClosedMs: 0,
    keepaliveMs: 0,
    firstBytesMs: 20,
    dropGraceMs: 0,
  },
  log: { debug: note, info: note, warn: note, error: note },
  onDial: () => {},
});
await engine.start(JSON.parse(plan) as RelaySpec);

function tell(): void {
  const [stats] = engine.stats().values();
  const state: Starved = { port: engine.listeners()[0]?.port ?? 0, lines, refused: stats?.refused["local-limit"] ?? 0 };
  process.send?.(state);
}

process.on("message", tell);
process.on("disconnect", () => process.exit());
tell();
