import assert from "node:assert/strict";
import { test } from "node:test";
import { type Answer, recordingLibc } from "#test/fakes/recording-libc.ts";
import { ERRNO } from "./abi.ts";
import { EpollSet } from "./epoll-set.ts";
import { EVENTS_OFFSET, WORDS_OFFSET } from "./memory.ts";

/** An event of 12 bytes on x86-64: events, fd and serial. */
const EVENT_WORDS = 3;

function start(answer: Answer = () => undefined) {
  const requested: number[][] = [];
  const { libc, memory, taken } = recordingLibc((call, values, shared) => {
    if (call === "epollCtl")
      requested.push([...shared.words.subarray(WORDS_OFFSET >> 2, (WORDS_OFFSET >> 2) + EVENT_WORDS)]);
    return answer(call, values, shared);
  });
  const set = new EpollSet<{ fd: number; serial: number }>(libc);
  const entry = (fd: number) => ({ fd, serial: 0 });
  /** Writes an event to memory, as the kernel does to report it. */
  const report = (index: number, fd: number, serial: number, events: number) =>
    memory.words.set([events, fd, serial], (EVENTS_OFFSET >> 2) + index * EVENT_WORDS);
  return { set, entry, report, taken, requested: () => requested.splice(0) };
}

const control = (operation: number, fd: number) => `epollCtl 100 ${operation} ${fd} @${WORDS_OFFSET}`;

test("a descriptor is added with a unique serial, modified and removed", () => {
  const { set, entry, taken, requested } = start();
  assert.deepEqual(taken(), [`epollCreate ${0o2000000}`]);
  const [one, two] = [entry(7), entry(9)];
  assert.deepEqual([set.add(one, 1), set.add(two, 4)], [0, 0]);
  assert.deepEqual([one.serial, two.serial], [1, 2]);
  set.modify(one, 5);
  set.remove(two);
  assert.deepEqual(taken(), [control(1, 7), control(1, 9), control(3, 7), control(2, 9)]);
  assert.deepEqual(requested(), [
    [1, 7, 1],
    [4, 9, 2],
    [5, 7, 1],
    [0, 9, 0],
  ]);
  assert.deepEqual(
    set.entries().filter((one) => one !== undefined),
    [one],
  );
  set.close();
  assert.deepEqual(taken(), ["close 100"]);
});

test("a descriptor that the kernel refuses stays in the set until it is forgotten; other failures are thrown", () => {
  const { set, entry } = start((call) => (call === "epollCtl" ? -ERRNO.ENOMEM : undefined));
  const one = entry(7);
  assert.equal(set.add(one, 1), -ERRNO.ENOMEM);
  assert.equal(set.entries()[7], one);
  assert.throws(() => set.modify(one, 1), { message: "epoll_ctl ENOMEM" });
  assert.throws(() => set.remove(one), { message: "epoll_ctl ENOMEM" });
  set.forget(one);
  assert.equal(set.entries()[7], undefined);
});

test("the constructor throws if no descriptor is left", () => {
  const refused: Answer = (call) => (call === "epollCreate" ? -ERRNO.EMFILE : undefined);
  assert.throws(() => start(refused), { message: "epoll_create1 EMFILE" });
});

test("forget removes an entry only if no other entry reuses its descriptor number", () => {
  const { set, entry } = start();
  const [old, next] = [entry(7), entry(7)];
  set.add(old, 1);
  set.add(next, 1);
  set.forget(old);
  assert.equal(set.entries()[7], next);
});

test("wait returns the number of events, 0 after a signal, and throws other failures", () => {
  let result = 3;
  const { set, taken } = start((call) => (call === "epollWait" ? result : undefined));
  taken();
  assert.equal(set.wait(250), 3);
  assert.deepEqual(taken(), [`epollWait 100 @${EVENTS_OFFSET} 256 250`]);
  result = -ERRNO.EINTR;
  assert.equal(set.wait(0), 0);
  result = -9;
  assert.throws(() => set.wait(0), { message: "epoll_wait EBADF" });
});

test("an event leads to its entry, but not to an entry that reuses the number of a closed descriptor", () => {
  const { set, entry, report } = start();
  const [one, two] = [entry(7), entry(9)];
  set.add(one, 1);
  set.add(two, 1);
  report(0, 9, two.serial, 0x11);
  report(1, 7, one.serial, 0x5);
  report(2, 8, one.serial, 0x1);
  assert.deepEqual(
    [0, 1, 2].map((index) => set.entryAt(index)),
    [two, one, undefined],
  );
  assert.deepEqual(
    [0, 1].map((index) => set.eventsAt(index)),
    [0x11, 0x5],
  );
  set.forget(one);
  assert.equal(set.entryAt(1), undefined);
  set.add(entry(7), 1);
  assert.equal(set.entryAt(1), undefined);
});
