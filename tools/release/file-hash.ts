import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { pipeline } from "node:stream/promises";

/**
 * The SHA-256 of a file in hexadecimal, as sha256sum prints it. Reads the file as a stream, because an executable has
 * 150 MB.
 */
export async function fileHash(path: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path), hash);
  return hash.digest("hex");
}
