/** A file that is open for writing: the few calls that a rewrite makes, so that a test can stop it between and in the midst of them. */
export interface WritableFile {
  /** Writes behind the last byte, wherever that is by then (O_APPEND). Gives how many bytes were taken; throws errno errors. */
  append(bytes: Buffer): number;
  /** Writes at a place. */
  write(bytes: Buffer, position: number): number;
  truncate(size: number): void;
  size(): number;
}

/**
 * Turns a file's content from `before` into `after` in place: the kubelet has bind-mounted the inode, so no rename can help. It is
 * made longer first, then what differs is written over, then it is cut. After every step each line is a whole one, of the old
 * content or the new. A disk that is full is noticed while the file is made longer, and then it is as it was.
 * Throws the error of the step that failed.
 */
export function rewrite(file: WritableFile, before: Buffer, after: Buffer): void {
  const more = room(before, after);
  if (more.length > 0) extend(file, before.length, more);
  const less = Math.max(0, before.length - after.length);
  // What is only cut off need not be written over first.
  if (less === 0 || !before.subarray(0, after.length).equals(after))
    overwrite(file, Buffer.concat([before, more]), Buffer.concat([after, emptyLines(less)]), before.length);
  if (less > 0) file.truncate(after.length);
}

/** What makes `before` as long as `after`: its own last bytes if `after` keeps the last line and goes on behind it, else empty lines. */
function room(before: Buffer, after: Buffer): Buffer {
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

/** `room` and `wanted` are of one length. If it fails, what was there is put back. */
function overwrite(file: WritableFile, room: Buffer, wanted: Buffer, size: number): void {
  const from = firstDifference(room, wanted);
  const to = lastDifference(room, wanted) + 1;
  let at = from;
  try {
    writeAll(wanted.subarray(from, to), (rest) => {
      const count = file.write(rest, at);
      at += count;
      return count;
    });
  } catch (error) {
    putBack(file, room.subarray(from, at), from);
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
  // Somebody else may have made it shorter; then a truncation would add zeros.
  if (file.size() > size) file.truncate(size);
}

function writeAll(bytes: Buffer, write: (rest: Buffer) => number): void {
  for (let done = 0; done < bytes.length; ) {
    const count = write(bytes.subarray(done));
    if (count === 0) throw new Error("nothing more was written");
    done += count;
  }
}

/** Compared natively first: byte by byte, a node's files would take longer than to write them. */
const CHUNK = 1024;

function firstDifference(a: Buffer, b: Buffer): number {
  let at = 0;
  while (at < a.length && a.subarray(at, at + CHUNK).equals(b.subarray(at, at + CHUNK))) at += CHUNK;
  while (at < a.length && a[at] === b[at]) at += 1;
  return at;
}

/** -1 when they are equal. */
function lastDifference(a: Buffer, b: Buffer): number {
  let end = a.length;
  const start = () => Math.max(0, end - CHUNK);
  while (end > 0 && a.subarray(start(), end).equals(b.subarray(start(), end))) end = start();
  while (end > 0 && a[end - 1] === b[end - 1]) end -= 1;
  return end - 1;
}
