import { randomUUID } from "node:crypto";
import type { V2Options } from "./proxy-header.ts";

/** TLVs of a version 2 header. */
export interface TlvOptions {
  /** A CRC-32C checksum of the header. A receiver that supports it must drop a connection whose header does not match. */
  readonly crc32c: boolean;
  /** An id of this connection, for the receiver's log: a random UUID as text. */
  readonly uniqueId: boolean;
}

const NONE: V2Options = {};

/** The options of one connection's header. */
export function v2Options(wanted: TlvOptions | undefined): V2Options {
  if (wanted === undefined) return NONE;
  const { crc32c, uniqueId } = wanted;
  return uniqueId ? { crc32c, uniqueId: Buffer.from(randomUUID(), "latin1") } : { crc32c };
}
