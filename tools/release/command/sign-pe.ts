// The executable that Node prepares for Windows still refers to Node's own signature, which is no longer valid.
// Format: Microsoft's PE/COFF specification.

const PE_OFFSET_AT = 0x3c;
const PE = 0x4550;
/** Offset of the optional header from the signature "PE\0\0". The COFF header is in between. */
const OPTIONAL_HEADER = 24;
const PE32_PLUS = 0x20b;
const DATA_DIRECTORIES = 112;
const CERTIFICATE_TABLE = 4;
const DIRECTORY_SIZE = 8;

/** Removes the reference to a signature from a 64-bit Windows program, in place. Throws if it is not such a program. */
export function removeSignature(program: Buffer): void {
  const at = program.readUInt32LE(PE_OFFSET_AT);
  const optional = at + OPTIONAL_HEADER;
  if (program.readUInt32LE(at) !== PE || program.readUInt16LE(optional) !== PE32_PLUS)
    throw new Error("this is no 64-bit Windows program");
  const entry = optional + DATA_DIRECTORIES + CERTIFICATE_TABLE * DIRECTORY_SIZE;
  program.fill(0, entry, entry + DIRECTORY_SIZE);
}
