import type { WriteStream } from "node:tty";
import { printable, printableLines } from "#lib/errors/printable.ts";
import type { Output } from "#lib/process/context.ts";
import { brokenLines } from "./layout.ts";

/** SGR parameters of ECMA-48 that every terminal knows. */
const STYLES = { bad: "31", good: "32", warning: "33", faint: "2", strong: "1" } as const;
export type Style = keyof typeof STYLES;
const ESCAPE = "\u001b";
const RESET = `${ESCAPE}[0m`;
/** Matches what `paint` writes, and no other control sequence. */
const PAINT = new RegExp(`(${ESCAPE}\\[(?:${Object.values(STYLES).join("|")}|0)m)`);

/** Marks `text` for `Output.write`, which removes the marks if colour is off. */
export function paint(style: Style, text: string): string {
  return `${ESCAPE}[${STYLES[style]}m${text}${RESET}`;
}

/** Whether to write colour: only to a terminal, and not if NO_COLOR is set (no-color.org). */
export function usesColour(
  stream: { readonly isTTY?: boolean },
  env: Readonly<Record<string, string | undefined>>,
): boolean {
  return stream.isTTY === true && !env.NO_COLOR && env.TERM !== "dumb";
}

interface OutputOptions {
  readonly colour?: boolean;
  /** Called for an error of the stream, such as a full disk. Not called if the reader has closed the stream. */
  readonly onError?: (error: Error) => void;
}

/** Treats a width of 0 as unknown: some pseudo-terminals of CI systems report it. */
function columnsOf(stream: NodeJS.WritableStream): number | undefined {
  return (stream as Partial<WriteStream>).columns || undefined;
}

/** Creates the output through which commands write to a stream of the process. No command writes in another way. */
export function createOutput(stream: NodeJS.WritableStream, options: OutputOptions = {}): Output {
  const { colour = false, onError = () => {} } = options;
  const closed = new AbortController();
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (closed.signal.aborted) return;
    closed.abort(error);
    if (error.code !== "EPIPE") onError(error);
  });
  const write = (text: string) => {
    if (!closed.signal.aborted) stream.write(text);
  };
  return {
    line: (text) => write(brokenLines(printable(text), columnsOf(stream))),
    write: (text) =>
      write(
        text
          .split(PAINT)
          .map((part, index) => (index % 2 === 0 ? printableLines(part) : colour ? part : ""))
          .join(""),
      ),
    closed: closed.signal,
    get columns() {
      return columnsOf(stream);
    },
  };
}
