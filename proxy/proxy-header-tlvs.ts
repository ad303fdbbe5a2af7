import { randomUUID } from "node:crypto";
import type { V2Options } from "./proxy-header.ts";

/** What a header of version 2 carries besides the addresses. */
export interface WantedTlvs {
  /** A checksum over the header; a receiver that knows it must drop a connection whose header does not match. */
  readonly crc32c: boolean;
  /** An id of this connection, for the receiver's log: a random UUID as text. */
  readonly uniqueId: boolean;
}

const NONE: V2Options = {};

/** The options of one connection's header. */
export function v2Options(wanted: WantedTlvs | undefined): V2Options {
  if (wanted === undefined) return NONE;
  const { crc32c, uniqueId } = wanted;
  return uniqueId ? { crc32c, uniqueId: Buffer.from(randomUUID(), "latin1") } : { crc32c };
}
