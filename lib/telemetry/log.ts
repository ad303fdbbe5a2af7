import { writeSync } from "node:fs";
import { printable, printableLines } from "#lib/errors/printable.ts";

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

/** `log` of the configuration. */
interface LogOptions {
  /** The lowest level that is written. */
  readonly level: string;
  /** `json` for programs, `text` for people. Default: `json`. */
  readonly format?: "json" | "text";
}

/**
 * Creates a logger that writes to standard error, with the name of the component in each line. A call returns after
 * its line is written.
 */
export function createLogger(
  options: LogOptions,
  component: string,
  write: (line: string) => void = writeLine,
): Logger {
  const threshold = LEVELS.indexOf(options.level);
  const lineOf = options.format === "text" ? textLine : jsonLine;
  const logAt = (level: "debug" | "info" | "warn" | "error") => {
    if (LEVELS.indexOf(level) < threshold) return () => {};
    return (fields: object, msg: string) =>
      write(`${lineOf({ level, time: new Date().toISOString(), component }, fields, msg)}\n`);
  };
  return { debug: logAt("debug"), info: logAt("info"), warn: logAt("warn"), error: logAt("error") };
}

interface LineHead {
  readonly level: string;
  readonly time: string;
  readonly component: string;
}

/** JSON.stringify leaves C1 controls and text direction characters unescaped. Their escapes have the same meaning. */
function jsonLine(head: LineHead, fields: object, msg: string): string {
  return printableLines(JSON.stringify({ ...head, ...fields, msg }));
}

/** Length of the longest level name. */
const LEVEL_WIDTH = 5;

/**
 * `2026-11-24T08:06:45.123Z WARN  agent: not written pod=shop/a code=file-busy`, always on one line.
 */
function textLine({ level, time, component }: LineHead, fields: object, msg: string): string {
  const pairs = Object.entries(fields).flatMap(([name, value]) =>
    value === undefined ? [] : [` ${name}=${textValue(value)}`],
  );
  return printable(`${time} ${level.toUpperCase().padEnd(LEVEL_WIDTH)} ${component}: ${msg}${pairs.join("")}`);
}

/** Shows a word unchanged, and everything else as JSON, which makes the end of a value visible. */
function textValue(value: unknown): string {
  return typeof value === "string" && /^[^\s"=]+$/.test(value) ? value : String(JSON.stringify(value));
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
