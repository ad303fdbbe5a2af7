// The files of a node are looked at one after the other, in one round after every change of the map. What each of them takes is kept
// for the next: fresh buffers would be garbage of megabytes a round, and collecting it takes longer than to write the files.

/** Makes a file's new content of what it has. `before` is good for the time of the call only; so is what comes back. */
export type FileChange = (before: Buffer) => Buffer;

/** A change that is told as a text, latin1: a character a byte. */
export function onText(change: (text: string) => string): FileChange {
  return (before) => {
    const text = before.toString("latin1");
    const changed = change(text);
    return changed === text ? before : Buffer.from(changed, "latin1");
  };
}

/** Gives room of a size in bytes, with anything in it; the same again each time. */
type ScratchBuffer = (size: number) => Buffer;

export function createScratchBuffer(): ScratchBuffer {
  let kept = Buffer.alloc(0);
  return (size) => {
    if (kept.length < size) kept = Buffer.allocUnsafeSlow(Math.max(size, 2 * kept.length, MIN_ROOM));
    return kept.subarray(0, size);
  };
}

const MIN_ROOM = 64 * 1024;

/** Both, one behind the other; a copy only where there are two. */
export function concatenated(first: Buffer, second: Buffer, room: ScratchBuffer): Buffer {
  if (second.length === 0) return first;
  if (first.length === 0) return second;
  const both = room(first.length + second.length);
  first.copy(both);
  second.copy(both, first.length);
  return both;
}
