import { pino } from "pino";

/** What components log through: structured fields first, then a short message. pino's own type, narrowed. */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** JSON lines on standard error. `component` is on every line. */
export function createLogger(level: string, component: string): Logger {
  return pino(
    {
      level,
      base: { component },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (name) => ({ level: name }) },
    },
    pino.destination({ fd: 2, sync: true }),
  );
}

/** Discards everything; for tests and for commands whose output is for people. */
export const silentLogger: Logger = { debug() {}, info() {}, warn() {}, error() {} };
