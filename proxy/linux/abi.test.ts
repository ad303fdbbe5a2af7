import assert from "node:assert/strict";
import { constants } from "node:os";
import { test } from "node:test";
import { hasCode } from "../../errors/errors.ts";
import { addressBytes, addressText, mappedBytes } from "../address.ts";
import { ERRNO, encodeSockaddr, epollEventLayout, SockaddrView } from "./abi.ts";
import { EVENTS, HEADER_ROOM, IO, layMemory, MAX_EVENTS, MEMORY_BYTES, WORDS } from "./memory.ts";

test("epoll_event is packed on x86-64 and aligned on arm64; another architecture is not guessed at", () => {
  assert.deepEqual(epollEventLayout("x64"), { size: 12, data: 4 });
  assert.deepEqual(epollEventLayout("arm64"), { size: 16, data: 8 });
  assert.throws(
    () => epollEventLayout("riscv64"),
    (error) => hasCode(error, "input-invalid"),
  );
});

test("the memory has room for as many events as are asked for, on either architecture, all on whole words", () => {
  for (const arch of ["x64", "arm64"]) {
    const { epollEvent } = layMemory(new ArrayBuffer(MEMORY_BYTES), 0, epollEventLayout(arch));
    assert.ok(EVENTS + MAX_EVENTS * epollEvent.size <= WORDS);
    assert.ok(WORDS + epollEvent.size <= MEMORY_BYTES);
    assert.deepEqual([EVENTS % 4, WORDS % 4, epollEvent.size % 4, epollEvent.data % 4], [0, 0, 0, 0]);
  }
  assert.equal(IO, HEADER_ROOM);
});

test("a sockaddr_in and a sockaddr_in6 are laid out as the kernel has them", () => {
  const v4 = encodeSockaddr(Uint8Array.of(192, 0, 2, 7), 443);
  assert.equal(Buffer.from(v4).toString("hex"), "020001bbc00002070000000000000000");
  const v6 = encodeSockaddr(addressBytes("2001:db8::1") ?? new Uint8Array(), 8443);
  assert.equal(Buffer.from(v6).toString("hex"), "0a0020fb0000000020010db800000000000000000000000100000000");
});

test("an address is read back as it was written, a mapped one as IPv4, an unknown family as none", () => {
  const memory = new Uint8Array(64);
  const view = new SockaddrView(memory, 8);
  for (const text of ["192.0.2.7", "2001:db8::1", "::1", "::"]) {
    memory.set(encodeSockaddr(addressBytes(text) ?? new Uint8Array(), 51_234), 8);
    assert.deepEqual([addressText(view.address() ?? new Uint8Array()), view.port()], [text, 51_234]);
  }
  memory.set(encodeSockaddr(mappedBytes(Uint8Array.of(10, 1, 2, 3)), 1), 8);
  assert.deepEqual([...(view.address() ?? [])], [10, 1, 2, 3]);
  memory[8] = 1;
  assert.equal(view.address(), undefined);
});

test("the error numbers are those of this system", () => {
  const known = constants.errno as Readonly<Record<string, number>>;
  for (const [name, number] of Object.entries(ERRNO)) assert.equal(known[name] ?? number, number, name);
});
