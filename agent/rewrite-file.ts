import { concatenated, createScratchBuffer } from "./file-bytes.ts";

/** A file open for writing: the calls of a rewrite, so that a test can make each of them fail or stop halfway. */
export interface WritableFile {
  /** Appends at the current end of the file (O_APPEND). Returns the number of bytes written; throws errno errors. */
  append(bytes: Buffer): number;
  /** Writes at a byte offset. Returns the number of bytes written. */
  write(bytes: Buffer, position: number): number;
  truncate(size: number): void;
  size(): number;
}

/**
 * Rewrites a file from `before` to `after` in place: the kubelet bind-mounts the inode, so a rename has no effect. It extends the file, then
 * overwrites what differs, then truncates it. After every step each line is a complete line of the old or the new content. A full disk is
 * detected while extending, and the file is then restored.
 * Throws the error of the step that failed.
 */
export function rewrite(file: WritableFile, before: Buffer, after: Buffer): void {
  const more = growth(before, after);
  if (more.length > 0) extend(file, before.length, more);
  const less = Math.max(0, before.length - after.length);
  // Bytes that are only truncated need no overwrite.
  if (less === 0 || !before.subarray(0, after.length).equals(after))
    overwrite(file, concatenated(before, more, room), concatenated(after, emptyLines(less), room), before.length);
  if (less > 0) file.truncate(after.length);
}

/** One for both: a file grows or it shrinks. */
const room = createScratchBuffer();

/** What makes `before` as long as `after`: its own last bytes if `after` keeps the last line and goes on behind it, else empty lines. */
function growth(before: Buffer, after: Buffer): Buffer {
  const size = before.length;
  const start = size < 2 ? 0 : before.lastIndexOf(NEWLINE, size - 2) + 1;
  const keepsLast = after.subarray(start, size).equals(before.subarray(start));
  const goesOn = size === 0 || after[size - 1] === NEWLINE || after[size] === NEWLINE;
  return keepsLast && goesOn ? after.subarray(size) : emptyLines(after.length - size);
}

const NEWLINE = 10;

function emptyLines(count: number): Buffer {
  return Buffer.alloc(Math.max(0, count), "\n");
}

function extend(file: WritableFile, size: number, bytes: Buffer): void {
  try {
    writeAll(bytes, (rest) => file.append(rest));
  } catch (error) {
    cutTo(file, size);
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
    putBack(file, present.subarray(from, at), from);
    cutTo(file, size);
    throw error;
  }
}

function putBack(file: WritableFile, bytes: Buffer, position: number): void {
  try {
    file.write(bytes, position);
  } catch {
    // The first error tells more. What stands is known as half of a block, and mended by the next write that succeeds.
  }
}

function cutTo(file: WritableFile, size: number): void {
  // Another process may have shortened the file; truncating to a larger size would add zeros.
  if (file.size() > size) file.truncate(size);
}

function writeAll(bytes: Buffer, write: (rest: Buffer) => number): void {
  for (let done = 0; done < bytes.length; ) {
    const count = write(bytes.subarray(done));
    if (count === 0) throw new Error("nothing more was written");
    done += count;
  }
}

/** Length of the common prefix of two buffers of the same length. Binary search, because the native comparison is fast. */
function firstDifference(a: Buffer, b: Buffer): number {
  let [same, different] = [0, a.length];
  while (same < different) {
    const middle = (same + different + 1) >> 1;
    if (a.compare(b, same, middle, same, middle) === 0) same = middle;
    else different = middle - 1;
  }
  return same;
}

/** -1 when they are equal. */
function lastDifference(a: Buffer, b: Buffer): number {
  let [different, same] = [0, a.length];
  while (different < same) {
    const middle = (different + same) >> 1;
    if (a.compare(b, middle, same, middle, same) === 0) same = middle;
    else different = middle + 1;
  }
  return same - 1;
}
