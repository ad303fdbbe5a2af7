import { SwitchbackError } from "#lib/errors/errors.ts";

/**
 * The API server cannot send a longer line. etcd accepts objects of up to 1.5 MiB. Their JSON has at most six times
 * as many bytes (`<` becomes `\u003c`).
 */
const MAX_LINE_LENGTH = 16 * 1024 * 1024;

/** Splits a stream of text chunks into lines. */
interface LineSplitter {
  push(chunk: string): void;
  /** Length of the incomplete last line. */
  rest(): number;
}

/** Empty lines are skipped. */
export function createLineSplitter(onLine: (line: string) => void): LineSplitter {
  let open: string[] = [];
  let length = 0;

  function complete(end: string): string {
    const line = open.join("") + end;
    open = [];
    length = 0;
    return line;
  }

  return {
    push(chunk) {
      let start = 0;
      for (let end = chunk.indexOf("\n"); end !== -1; end = chunk.indexOf("\n", start)) {
        const line = complete(chunk.slice(start, end));
        start = end + 1;
        if (line !== "") onLine(line);
      }
      open.push(chunk.slice(start));
      length += chunk.length - start;
      if (length > MAX_LINE_LENGTH)
        throw new SwitchbackError("data-corrupt", `a line is longer than ${MAX_LINE_LENGTH}`);
    },
    rest: () => length,
  };
}
