import { printable } from "#lib/errors/printable.ts";
import type { Progress } from "#lib/process/context.ts";

type Screen = Pick<NodeJS.WriteStream, "write" | "isTTY" | "columns">;

const FIRST_MS = 2_000;
/** Interval on a terminal, where one line is updated. */
const TERMINAL_MS = 1_000;
/** Interval without a terminal, where each update is a line of a log. */
const LOG_MS = 10_000;
const ERASE_LINE = "\r\u001b[K";
const DEFAULT_COLUMNS = 80;

/** Writes progress to `stream` directly. `clear` erases the line before other output. */
export function createProgress(stream: Screen): Progress {
  const terminal = stream.isTTY === true;
  let shown = false;
  const clear = () => {
    if (shown) stream.write(ERASE_LINE);
    shown = false;
  };
  const show = (text: string, seconds: number) => {
    const elapsed = ` (${seconds} s)`;
    if (!terminal) return void stream.write(`${printable(text)}${elapsed}\n`);
    clear();
    // The text is cut, because a line that wraps cannot be erased.
    const room = (stream.columns || DEFAULT_COLUMNS) - elapsed.length - 1;
    stream.write(`${printable(text).slice(0, room)}${elapsed}`);
    shown = true;
  };
  return {
    clear,
    async during(what, work) {
      const began = performance.now();
      let next = FIRST_MS;
      const timer = setInterval(() => {
        const elapsed = performance.now() - began;
        if (elapsed < next) return;
        next = elapsed + (terminal ? TERMINAL_MS : LOG_MS) - TICK_MS / 2;
        show(typeof what === "string" ? what : what(), Math.floor(elapsed / 1000));
      }, TICK_MS);
      try {
        return await work();
      } finally {
        clearInterval(timer);
        clear();
      }
    },
  };
}

/** Short enough to show every second. */
const TICK_MS = 250;
