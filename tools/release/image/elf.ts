const PT_LOAD = 1;

/**
 * A program without what is only there for a debugger: everything after the last byte that is loaded. Sections are
 * named by a table at the end, so the header no longer points at one. The build ID stays, by which a debugger finds
 * the symbols in the program as it was published. 64 bits, little-endian: amd64 and arm64.
 */
export function withoutDebugInfo(program: Buffer): Buffer {
  if (program.toString("latin1", 0, 6) !== "\x7fELF\x02\x01")
    throw new Error("not a little-endian ELF program of 64 bits");
  const table = Number(program.readBigUInt64LE(32));
  const [size, count] = [program.readUInt16LE(54), program.readUInt16LE(56)];
  let end = table + size * count;
  for (let n = 0; n < count; n++) {
    const segment = table + n * size;
    if (program.readUInt32LE(segment) !== PT_LOAD) continue;
    const last = program.readBigUInt64LE(segment + 8) + program.readBigUInt64LE(segment + 32);
    end = Math.max(end, Number(last));
  }
  const shorter = Buffer.from(program.subarray(0, end));
  // Where the section table is, how many entries it has, and which of them has the names.
  shorter.writeBigUInt64LE(0n, 40);
  shorter.writeUInt16LE(0, 60);
  shorter.writeUInt16LE(0, 62);
  return shorter;
}
