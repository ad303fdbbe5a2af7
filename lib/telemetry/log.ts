import { writeSync } from "node:fs";
import { printableLines } from "#lib/errors/printable.ts";

/** The logger of all components. Its methods take structured fields first, then a short message. */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** The values of `log.level`, least important first. */
const LEVELS: readonly string[] = ["trace", "debug", "info", "warn", "error"];
const STDERR = 2;

/**
 * Creates a logger that writes lines of JSON to standard error, with the name of the component in each. A call returns
 * after its line is written.
 *
 * @param options `log` of the configuration: the lowest level that is written.
 */
export function createLogger(
  options: { readonly level: string },
  component: string,
  write: (line: string) => void = writeLine,
): Logger {
  const threshold = LEVELS.indexOf(options.level);
  const logAt = (level: "debug" | "info" | "warn" | "error") => {
    if (LEVELS.indexOf(level) < threshold) return () => {};
    return (fields: object, msg: string) => {
      const line = JSON.stringify({ level, time: new Date().toISOString(), component, ...fields, msg });
      // JSON.stringify leaves C1 controls and text direction characters unescaped. Their escapes mean the same.
      write(`${printableLines(line)}\n`);
    };
  };
  return { debug: logAt("debug"), info: logAt("info"), warn: logAt("warn"), error: logAt("error") };
}

/** Retries, and the delay between them in milliseconds, while standard error is full. */
const WAITS = 5;
const WAIT_MS = 10;

/** Writes a line. A line that cannot be written is lost: a component continues without its log. */
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
