import { printable, printableLines } from "#lib/errors/printable.ts";
import type { Output } from "#lib/process/context.ts";

/**
 * Creates the output through which commands write to a stream of the process. No command writes in another way.
 * `onError` is called for an error of the stream, such as a full disk, but not if the reader has closed the stream.
 */
export function createOutput(
  stream: NodeJS.WritableStream & { readonly isTTY?: boolean },
  onError: (error: Error) => void = () => {},
): Output {
  let isLost = false;
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (!isLost && error.code !== "EPIPE") onError(error);
    isLost = true;
  });
  const write = (text: string) => {
    if (!isLost) stream.write(text);
  };
  return {
    isTerminal: stream.isTTY === true,
    line: (text) => write(`${printable(text)}\n`),
    write: (text) => write(printableLines(text)),
  };
}
