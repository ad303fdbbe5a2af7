import type { Reason } from "#hostmap/types.ts";

// The hosts files of a node are checked one by one, in one round per change of the map. Buffers are reused: new
// ones would be megabytes of garbage per round, and collecting it takes longer than writing the files.

/**
 * Computes a file's new content from its content. `before` and the result are valid only until the next file is read.
 * Throws RefusedChange if the file must stay as it is.
 */
export type FileChange = (before: Buffer) => Buffer;

/** Why a file is not changed. */
export class RefusedChange extends Error {
  readonly reason: Reason;

  constructor(reason: Reason) {
    super(reason.text);
    this.reason = reason;
  }
}

/** A FileChange given as a function of latin1 text, one character per byte. */
export function onText(change: (text: string) => string): FileChange {
  return (before) => {
    const text = before.toString("latin1");
    const changed = change(text);
    return changed === text ? before : Buffer.from(changed, "latin1");
  };
}

/** Returns a reusable scratch buffer of `size` bytes; its contents are undefined. */
type ScratchBuffer = (size: number) => Buffer;

export function createScratchBuffer(): ScratchBuffer {
  let buffer = Buffer.alloc(0);
  return (size) => {
    if (buffer.length < size) buffer = Buffer.allocUnsafeSlow(Math.max(size, 2 * buffer.length, MIN_BYTES));
    return buffer.subarray(0, size);
  };
}

const MIN_BYTES = 64 * 1024;

/** Concatenates two buffers. Copies into the scratch buffer only if neither is empty. */
export function concatenated(first: Buffer, second: Buffer, scratch: ScratchBuffer): Buffer {
  if (second.length === 0) return first;
  if (first.length === 0) return second;
  const both = scratch(first.length + second.length);
  first.copy(both);
  second.copy(both, first.length);
  return both;
}
