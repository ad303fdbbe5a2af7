import { writeSync } from "node:fs";
import type { Logger } from "./log.ts";

/** As pino counts them. */
const LEVELS: Readonly<Record<string, number>> = { trace: 10, debug: 20, info: 30, warn: 40, error: 50 };
const STDERR = 2;

/** The lines of `createLogger` without its library, which takes 7 MB: for what runs on every node. */
export function createPlainLogger(
  level: string,
  component: string,
  write: (line: string) => void = (line) => void writeSync(STDERR, line),
): Logger {
  const least = LEVELS[level] ?? 0;
  const at = (name: "debug" | "info" | "warn" | "error") => (fields: object, msg: string) => {
    if ((LEVELS[name] ?? 0) < least) return;
    write(`${JSON.stringify({ level: name, time: new Date().toISOString(), component, ...fields, msg })}\n`);
  };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}
