import type { MakeEngine, RelayPlan } from "../engine.ts";

/*
 * A process with one engine and nothing else that opens files, for a parent that has limited how many it may open.
 * Arguments: module and name of the engine's factory, plan as JSON. Speaks with its parent over IPC.
 */
export interface Starved {
  readonly port: number;
  readonly lines: readonly string[];
  readonly refused: number;
}

const [, , module = "", factory = "", plan = ""] = process.argv;
const make = ((await import(module)) as Record<string, MakeEngine>)[factory];
if (make === undefined) throw new Error(`${module} exports no ${factory}`);

const lines: string[] = [];
const note = (_fields: object, message: string): void => void lines.push(message);
const engine = make({
  limits: {
    maxConnections: 1000,
    maxConnectionsPerSource: 1000,
    connectTimeoutMs: 5000,
    idleTimeoutMs: 0,
    keepaliveMs: 0,
    firstBytesMs: 20,
    dropGraceMs: 0,
  },
  log: { debug: note, info: note, warn: note, error: note },
  onDial: () => {},
});
await engine.start(JSON.parse(plan) as RelayPlan);

function tell(): void {
  const [stats] = engine.stats().values();
  const state: Starved = { port: engine.listeners()[0]?.port ?? 0, lines, refused: stats?.refused["local-limit"] ?? 0 };
  process.send?.(state);
}

process.on("message", tell);
process.on("disconnect", () => process.exit());
tell();
