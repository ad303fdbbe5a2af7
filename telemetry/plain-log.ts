import { writeSync } from "node:fs";
import type { Logger } from "./log.ts";

/** pino's level numbers. */
const LEVELS: Readonly<Record<string, number>> = { trace: 10, debug: 20, info: 30, warn: 40, error: 50 };
const STDERR = 2;

/** Writes the same lines as `createLogger` without pino, which takes 7 MB of memory; for the agent, which runs on every node. */
export function createPlainLogger(
  level: string,
  component: string,
  write: (line: string) => void = (line) => void writeSync(STDERR, line),
): Logger {
  const threshold = LEVELS[level] ?? 0;
  const logAt = (name: "debug" | "info" | "warn" | "error") => (fields: object, msg: string) => {
    if ((LEVELS[name] ?? 0) < threshold) return;
    write(`${JSON.stringify({ level: name, time: new Date().toISOString(), component, ...fields, msg })}\n`);
  };
  return { debug: logAt("debug"), info: logAt("info"), warn: logAt("warn"), error: logAt("error") };
}
