import { isUtf8 } from "node:buffer";
import { readFileSync } from "node:fs";
import { describeError, SwitchbackError } from "#lib/errors/errors.ts";

/** A text file, with the name that messages use for it. */
export interface TextFile {
  readonly name: string;
  /** Has no byte order mark. */
  readonly text: string;
}

/** The file name that means standard input. */
export const STDIN = "-";
const BYTE_ORDER_MARK = "\ufeff";

/**
 * Reads a text file in UTF-8, or standard input for `-`. Throws `input-invalid` for unreadable files and other
 * encodings.
 */
export function readTextFile(file: string): TextFile {
  const name = file === STDIN ? "standard input" : file;
  let bytes: Buffer;
  try {
    bytes = readFileSync(file === STDIN ? 0 : file);
  } catch (error) {
    throw new SwitchbackError("input-invalid", `cannot read ${name}: ${describeError(error)}`);
  }
  const fault = encodingFault(bytes);
  if (fault !== undefined) throw new SwitchbackError("input-invalid", `${name}${fault}`);
  const text = bytes.toString("utf8");
  return { name, text: text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text };
}

/** The end of the error message, after the file's name. Undefined if the bytes are UTF-8 text. */
function encodingFault(bytes: Buffer): string | undefined {
  const encoding = wideEncoding(bytes);
  if (encoding !== undefined) {
    return `: is ${encoding}; accepted is UTF-8 (\`iconv -f ${encoding} -t UTF-8\` converts it)`;
  }
  const nul = bytes.indexOf(0);
  if (nul !== -1) return `:${lineAt(bytes, nul)}: is not text: it has a NUL byte; accepted is text in UTF-8`;
  if (isUtf8(bytes)) return undefined;
  return `:${lineAt(bytes, invalidAt(bytes))}: has bytes that are not UTF-8; accepted is text in UTF-8`;
}

/**
 * Detects UTF-16 or UTF-32 by the byte order mark, or by the zero bytes among the first four: every manifest starts
 * with ASCII.
 */
function wideEncoding(bytes: Buffer): string | undefined {
  const start = [...bytes.subarray(0, 4)].map((byte) => (byte === 0 ? "0" : "x")).join("");
  if (start === "000x" || bytes.subarray(0, 4).equals(Buffer.from([0, 0, 0xfe, 0xff]))) return "UTF-32";
  if (start === "x000" || bytes.subarray(0, 4).equals(Buffer.from([0xff, 0xfe, 0, 0]))) return "UTF-32";
  const mark = bytes.subarray(0, 2).toString("hex");
  return mark === "feff" || mark === "fffe" || start === "0x0x" || start === "x0x0" ? "UTF-16" : undefined;
}

function lineAt(bytes: Buffer, offset: number): number {
  return bytes.subarray(0, offset).reduce((lines, byte) => (byte === 0x0a ? lines + 1 : lines), 1);
}

/**
 * The offset of the first line that is not UTF-8. Lines can be checked one by one, because no character contains a
 * line feed.
 */
function invalidAt(bytes: Buffer): number {
  let start = 0;
  for (let end = bytes.indexOf(0x0a); end !== -1; end = bytes.indexOf(0x0a, start)) {
    if (!isUtf8(bytes.subarray(start, end))) break;
    start = end + 1;
  }
  return start;
}
