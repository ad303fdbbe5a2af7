const INTERVAL_MS = 10_000;

/** Reports the progress of long work. */
export interface Progress {
  /** The current activity. It is shown only if nothing was shown for an interval, so callers repeat it. */
  status(text: string): void;
  /** A text that is shown at once. */
  say(text: string): void;
}

/**
 * Writes lines to standard error: `say` at once, `status` at most one line every 10 s. Each line starts with the time
 * since the start.
 */
export function progressLines(write: (line: string) => void = (line) => process.stderr.write(line)): Progress {
  const started = performance.now();
  let shown = started;
  const print = (text: string) => {
    shown = performance.now();
    write(`[${elapsed(shown - started)}] ${text}\n`);
  };
  return {
    say: print,
    status: (text) => {
      if (performance.now() - shown >= INTERVAL_MS) print(text);
    },
  };
}

/** Formats a duration: `7 s`, `4 min 05 s`. */
export function elapsed(milliseconds: number): string {
  const seconds = Math.round(milliseconds / 1000);
  if (seconds < 60) return `${seconds} s`;
  return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`;
}
