import assert from "node:assert/strict";
import { constants } from "node:os";
import { test } from "node:test";
import { hasCode } from "#lib/errors/errors.ts";
import { addressBytes, addressText, mappedBytes } from "../address.ts";
import { ERRNO, encodeSockaddr, epollEventLayout, SockaddrView } from "./abi.ts";
import {
  createMemory,
  EVENTS_OFFSET,
  IO_OFFSET,
  MAX_EVENTS,
  MAX_HEADER_BYTES,
  MEMORY_BYTES,
  WORDS_OFFSET,
} from "./memory.ts";

test("epoll_event is packed on x86-64 and aligned on arm64; another architecture is rejected", () => {
  assert.deepEqual(epollEventLayout("x64"), { size: 12, data: 4 });
  assert.deepEqual(epollEventLayout("arm64"), { size: 16, data: 8 });
  assert.throws(
    () => epollEventLayout("riscv64"),
    (error) => hasCode(error, "input-invalid"),
  );
});

test("the memory holds MAX_EVENTS events on either architecture, all word-aligned", () => {
  for (const arch of ["x64", "arm64"]) {
    const { epollEvent } = createMemory(new ArrayBuffer(MEMORY_BYTES), 0, epollEventLayout(arch));
    assert.ok(EVENTS_OFFSET + MAX_EVENTS * epollEvent.size <= WORDS_OFFSET);
    assert.ok(WORDS_OFFSET + epollEvent.size <= MEMORY_BYTES);
    assert.deepEqual([EVENTS_OFFSET % 4, WORDS_OFFSET % 4, epollEvent.size % 4, epollEvent.data % 4], [0, 0, 0, 0]);
  }
  assert.equal(IO_OFFSET, MAX_HEADER_BYTES);
});

test("sockaddr_in and sockaddr_in6 have the kernel's layout", () => {
  const v4 = encodeSockaddr(Uint8Array.of(192, 0, 2, 7), 443);
  assert.equal(Buffer.from(v4).toString("hex"), "020001bbc00002070000000000000000");
  const v6 = encodeSockaddr(addressBytes("2001:db8::1") ?? new Uint8Array(), 8443);
  assert.equal(Buffer.from(v6).toString("hex"), "0a0020fb0000000020010db800000000000000000000000100000000");
});

test("an address is read back as written, an IPv4-mapped one as IPv4, an unknown family as undefined", () => {
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

test("an IPv6 address that differs from an IPv4-mapped one in a single byte is IPv6", () => {
  const memory = new Uint8Array(64);
  const view = new SockaddrView(memory, 8);
  for (let index = 0; index < 12; index += 1) {
    const bytes = mappedBytes(Uint8Array.of(10, 1, 2, 3));
    bytes[index] = (bytes[index] ?? 0) ^ 1;
    memory.set(encodeSockaddr(bytes, 1), 8);
    assert.deepEqual([...(view.address() ?? [])], [...bytes]);
  }
});

test("a family has two bytes", () => {
  const memory = new Uint8Array(64);
  const view = new SockaddrView(memory, 0);
  for (const text of ["192.0.2.7", "::1"]) {
    memory.set(encodeSockaddr(addressBytes(text) ?? new Uint8Array(), 1));
    memory[1] = 1;
    assert.equal(view.address(), undefined);
  }
});

test("the errno values are those of this system", () => {
  const known = constants.errno as Readonly<Record<string, number>>;
  for (const [name, number] of Object.entries(ERRNO)) assert.equal(known[name] ?? number, number, name);
});
