import { SwitchbackError } from "../errors/errors.ts";

/** Far above any object (etcd takes 1.5 MiB): a line that is still open here is not one of the API server's. */
const LONGEST_LINE = 32 * 1024 * 1024;

/** Cuts a stream of text into lines, wherever its pieces begin and end. */
interface LineSplitter {
  push(chunk: string): void;
  /** Characters of the line that is not complete yet. */
  rest(): number;
}

/** Empty lines are passed over. */
export function createLineSplitter(onLine: (line: string) => void): LineSplitter {
  let open: string[] = [];
  let length = 0;

  function complete(end: string): string {
    if (length === 0) return end;
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
      if (start === chunk.length) return;
      open.push(chunk.slice(start));
      length += chunk.length - start;
      if (length > LONGEST_LINE) throw new SwitchbackError("data-corrupt", `a line is longer than ${LONGEST_LINE}`);
    },
    rest: () => length,
  };
}
