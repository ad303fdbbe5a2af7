import { epollEventLayout } from "#proxy/linux/abi.ts";
import type { Libc } from "#proxy/linux/libc.ts";
import { createMemory, MEMORY_BYTES, type Memory, WORDS_OFFSET } from "#proxy/linux/memory.ts";

const ADDRESS = 0x7f00_0000_0000;
const FIRST_FD = 100;
/** Calls that return a descriptor. */
const OPENING = new Set(["socket", "accept4", "eventfd", "epollCreate"]);

/**
 * The result of a call; a negative errno if it fails. Undefined: the call succeeds. The function may write to the
 * memory.
 */
export type Answer = (call: string, values: readonly number[], memory: Memory) => number | undefined;

/**
 * Records system calls. They succeed unless `answer` returns something else. Descriptors start at 100. A recorded
 * call has the form `close 100`. A socket option also shows its value: `setsockopt 100 6 1 = 1`. Pointers are shown
 * as offsets in the memory: `@0`.
 */
export function recordingLibc(answer: Answer = () => undefined) {
  const memory = createMemory(new ArrayBuffer(MEMORY_BYTES), ADDRESS, epollEventLayout("x64"));
  const calls: string[] = [];
  let next = FIRST_FD;
  const call = (name: string, values: readonly number[]): number => {
    const shown = values.map((value) =>
      value >= ADDRESS && value < ADDRESS + MEMORY_BYTES ? `@${value - ADDRESS}` : value,
    );
    const word = memory.words[WORDS_OFFSET >> 2];
    calls.push(name === "setsockopt" ? `${name} ${shown.slice(0, 3).join(" ")} = ${word}` : [name, ...shown].join(" "));
    const answered = answer(name, values, memory);
    if (answered !== undefined) return answered;
    if (name === "pipe2") memory.words.set([next++, next++], WORDS_OFFSET >> 2);
    return OPENING.has(name) ? next++ : 0;
  };
  const libc = new Proxy({} as Libc, {
    get: (_, name) => (name === "memory" ? memory : (...values: number[]) => call(String(name), values)),
  });
  /** Returns the calls since the last time. */
  const taken = () => calls.splice(0);
  return { libc, memory, taken };
}
