import { pino } from "pino";

/** The logger of all components: structured fields first, then a short message. A subset of pino's type. */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** Creates a logger that writes JSON lines with the field `component` to standard error. */
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

/** Discards everything; for tests, and for commands with human-readable output. */
export const silentLogger: Logger = { debug() {}, info() {}, warn() {}, error() {} };
