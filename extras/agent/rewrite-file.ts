import { concatenated, createScratchBuffer } from "./file-bytes.ts";

/**
 * A file that is open for writing. It has the calls of a rewrite, so that a test can make each of them fail or stop
 * halfway.
 */
export interface WritableFile {
  /** Appends at the current end of the file (O_APPEND). Returns the number of bytes written; throws errno errors. */
  append(bytes: Buffer): number;
  /** Writes at a byte offset. Returns the number of bytes written. */
  write(bytes: Buffer, position: number): number;
  truncate(size: number): void;
  size(): number;
}

/**
 * Rewrites a file from `before` to `after` in place: the kubelet bind-mounts the inode, so a rename has no effect.
 * It extends the file, then overwrites what differs, then truncates it. After every step each line is a complete
 * line of the old or the new content. A full disk is detected while extending, and the file is then restored.
 * Throws the error of the step that failed.
 */
export function rewrite(file: WritableFile, before: Buffer, after: Buffer): void {
  const extension = extensionFor(before, after);
  if (extension.length > 0) extend(file, before.length, extension);
  const excess = Math.max(0, before.length - after.length);
  // Bytes that are only truncated need no overwrite.
  if (excess === 0 || !before.subarray(0, after.length).equals(after))
    overwrite(
      file,
      concatenated(before, extension, scratch),
      concatenated(after, emptyLines(excess), scratch),
      before.length,
    );
  if (excess > 0) file.truncate(after.length);
}

/** One buffer is enough, because a file either grows or shrinks. */
const scratch = createScratchBuffer();

/**
 * Returns the bytes that extend `before` to the length of `after`: the end of `after` if it keeps the last line of
 * `before` and continues after it, else empty lines.
 */
function extensionFor(before: Buffer, after: Buffer): Buffer {
  const size = before.length;
  const start = size < 2 ? 0 : before.lastIndexOf(NEWLINE, size - 2) + 1;
  const keepsLastLine = after.subarray(start, size).equals(before.subarray(start));
  const continues = size === 0 || after[size - 1] === NEWLINE || after[size] === NEWLINE;
  return keepsLastLine && continues ? after.subarray(size) : emptyLines(after.length - size);
}

const NEWLINE = 10;

function emptyLines(count: number): Buffer {
  return Buffer.alloc(Math.max(0, count), "\n");
}

function extend(file: WritableFile, size: number, bytes: Buffer): void {
  try {
    writeAll(bytes, (rest) => file.append(rest));
  } catch (error) {
    truncateTo(file, size);
    throw error;
  }
}

/** `present` and `wanted` have the same length. On failure the old bytes are restored. */
function overwrite(file: WritableFile, present: Buffer, wanted: Buffer, size: number): void {
  const from = firstDifference(present, wanted);
  const to = lastDifference(present, wanted) + 1;
  let at = from;
  try {
    writeAll(wanted.subarray(from, to), (rest) => {
      const count = file.write(rest, at);
      at += count;
      return count;
    });
  } catch (error) {
    restore(file, present.subarray(from, at), from);
    truncateTo(file, size);
    throw error;
  }
}

function restore(file: WritableFile, bytes: Buffer, position: number): void {
  try {
    file.write(bytes, position);
  } catch {
    // The first error is more useful. The partial block is recognized and repaired by the next successful write.
  }
}

function truncateTo(file: WritableFile, size: number): void {
  // Another process may have shortened the file; truncating to a larger size would add zeros.
  if (file.size() > size) file.truncate(size);
}

function writeAll(bytes: Buffer, write: (rest: Buffer) => number): void {
  for (let done = 0; done < bytes.length; ) {
    const count = write(bytes.subarray(done));
    if (count === 0) throw new Error("the write returned 0 bytes");
    done += count;
  }
}

/**
 * Length of the common prefix of two buffers of the same length. Binary search, because the native comparison is fast.
 */
function firstDifference(a: Buffer, b: Buffer): number {
  let [same, different] = [0, a.length];
  while (same < different) {
    const middle = (same + different + 1) >> 1;
    if (a.compare(b, same, middle, same, middle) === 0) same = middle;
    else different = middle - 1;
  }
  return same;
}

/** Index of the last byte that differs; -1 if the buffers are equal. */
function lastDifference(a: Buffer, b: Buffer): number {
  let [different, same] = [0, a.length];
  while (different < same) {
    const middle = (different + same) >> 1;
    if (a.compare(b, middle, same, middle, same) === 0) same = middle;
    else different = middle + 1;
  }
  return same - 1;
}
