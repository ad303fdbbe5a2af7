import assert from "node:assert/strict";
import { test } from "node:test";
import { recordingLibc } from "#test/fakes/recording-libc.ts";
import { ERRNO } from "./abi.ts";
import { ReservedFds } from "./reserved-fds.ts";

/** Closed on exec. */
const EVENTFD = `eventfd 0 ${0o2000000}`;

function start() {
  const rig = { left: Number.POSITIVE_INFINITY };
  const { libc, taken } = recordingLibc((call) => {
    if (call !== "eventfd") return undefined;
    rig.left -= 1;
    return rig.left < 0 ? -ERRNO.EMFILE : undefined;
  });
  const lender = {
    lent: 0,
    lendFds: (count: number) => {
      lender.lent += count;
    },
  };
  return { rig, libc, taken, lender };
}

test("three descriptors are reserved, released one at a time, and reserved again", () => {
  const { libc, taken, lender } = start();
  const reserved = new ReservedFds(libc, lender);
  const state = () => [reserved.hasAny, reserved.isFull, lender.lent];
  assert.deepEqual(
    [taken(), state()],
    [
      [EVENTFD, EVENTFD, EVENTFD],
      [true, true, 0],
    ],
  );
  assert.deepEqual([reserved.releaseOne(), state()], [true, [true, false, 1]]);
  assert.deepEqual([reserved.releaseOne(), reserved.releaseOne(), state()], [true, true, [false, false, 3]]);
  assert.equal(reserved.releaseOne(), false);
  assert.deepEqual(taken(), ["close 102", "close 101", "close 100"]);
  reserved.refill();
  assert.deepEqual(
    [taken(), state()],
    [
      [EVENTFD, EVENTFD, EVENTFD],
      [true, true, 0],
    ],
  );
  reserved.refill();
  assert.deepEqual(taken(), []);
  reserved.close();
  reserved.close();
  assert.deepEqual(
    [taken(), state()],
    [
      ["close 103", "close 104", "close 105"],
      [false, false, 0],
    ],
  );
});

test("refill reserves as many descriptors as the system allows", () => {
  const { libc, rig, taken, lender } = start();
  const reserved = new ReservedFds(libc, lender);
  for (let count = 0; count < 3; count += 1) reserved.releaseOne();
  rig.left = 2;
  reserved.refill();
  assert.deepEqual([reserved.hasAny, reserved.isFull, rig.left, lender.lent], [true, false, -1, 1]);
  taken();
  reserved.close();
  assert.deepEqual(taken(), ["close 103", "close 104"]);
});

test("the constructor throws if no descriptor is left", () => {
  const { libc, rig, lender } = start();
  rig.left = 2;
  assert.throws(() => new ReservedFds(libc, lender), { message: "eventfd EMFILE" });
});
