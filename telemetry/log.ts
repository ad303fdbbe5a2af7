import { writeSync } from "node:fs";
import { printableLines } from "../errors/printable.ts";

/** The logger of all components: structured fields first, then a short message. */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** The values of `log.level`, the least important first. */
const LEVELS: readonly string[] = ["trace", "debug", "info", "warn", "error"];
const STDERR = 2;

/** Creates a logger that writes JSON lines with the field `component` to standard error, each before it returns. */
export function createLogger(level: string, component: string, write: (line: string) => void = writeLine): Logger {
  const threshold = LEVELS.indexOf(level);
  const logAt = (name: "debug" | "info" | "warn" | "error") => (fields: object, msg: string) => {
    if (LEVELS.indexOf(name) < threshold) return;
    const line = JSON.stringify({ level: name, time: new Date().toISOString(), component, ...fields, msg });
    // JSON leaves C1 controls and text direction as they are; their escapes mean the same.
    write(`${printableLines(line)}\n`);
  };
  return { debug: logAt("debug"), info: logAt("info"), warn: logAt("warn"), error: logAt("error") };
}

/** A reader of standard error that has fallen behind is waited for so many times so long, in milliseconds. */
const WAITS = 5;
const WAIT_MS = 10;

/** Writes a line. One that cannot be written is lost: a component goes on without its log. */
function writeLine(line: string): void {
  let rest: Uint8Array = Buffer.from(line);
  for (let waits = 0; rest.length > 0 && waits < WAITS; ) {
    try {
      rest = rest.subarray(writeSync(STDERR, rest));
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EAGAIN")) return;
      waits += 1;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, WAIT_MS);
    }
  }
}

/** Discards everything; for tests, and for commands with human-readable output. */
export const silentLogger: Logger = { debug() {}, info() {}, warn() {}, error() {} };
