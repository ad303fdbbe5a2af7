import assert from "node:assert/strict";
import { test } from "node:test";
import { pause, Rig } from "../conformance/rig.ts";
import { endOf, randomBytes, take, takeHeader } from "../conformance/streams.ts";
import { encodeSockaddr } from "./abi.ts";
import { linuxEngine } from "./engine.ts";
import { type Libc, openLibc } from "./libc.ts";
import { IO_BYTES, IO_OFFSET } from "./memory.ts";
import { connectTo, openTcpSocket } from "./sockets.ts";

const MSG_OOB = 1;
const SHUT_WR = 1;

/** Sends all bytes on a raw socket: Node's sockets have no urgent data. */
async function sendAll(libc: Libc, fd: number, bytes: Buffer, flags = 0): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const piece = bytes.subarray(done, done + IO_BYTES);
    libc.memory.bytes.set(piece, IO_OFFSET);
    const sent = libc.send(fd, libc.memory.address + IO_OFFSET, piece.length, flags);
    if (sent > 0) done += sent;
    else await pause(1);
  }
}

for (const size of [10, 20_000, 64 * 1024, 300_000]) {
  for (const fin of ["with a FIN right after it", "with the connection left open"]) {
    test(`${size} bytes before urgent data and as many after it all arrive, ${fin}`, async () => {
      await using rig = await Rig.start(linuxEngine(1));
      const libc = openLibc();
      const address = encodeSockaddr(Uint8Array.of(127, 0, 0, 1), rig.port());
      const fd = openTcpSocket(libc, address);
      connectTo(libc, fd, address);
      const bytes = randomBytes(2 * size);
      const sending = sendAll(libc, fd, bytes.subarray(0, 1));
      const upstream = await rig.upstream.next();
      await takeHeader(upstream);
      await sending;
      await sendAll(libc, fd, bytes.subarray(1, size));
      // The urgent byte is not part of the stream: a socket without SO_OOBINLINE skips it.
      await sendAll(libc, fd, Buffer.from("!"), MSG_OOB);
      await sendAll(libc, fd, bytes.subarray(size));
      if (fin.startsWith("with a FIN")) libc.shutdown(fd, SHUT_WR);
      assert.ok((await take(upstream, bytes.length)).equals(bytes));
      if (!fin.startsWith("with a FIN")) libc.shutdown(fd, SHUT_WR);
      assert.deepEqual(await endOf(upstream), { how: "FIN", bytes: Buffer.alloc(0) });
      libc.close(fd);
    });
  }
}
