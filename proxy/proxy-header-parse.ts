import { isIPv4 } from "node:net";
import type { Reason } from "#hostmap/types.ts";
import { addressBytes, addressText, normalAddress } from "./address.ts";
import { crc32c } from "./crc32c.ts";
import {
  type Endpoints,
  TLV_HEAD_BYTES,
  TLV_TYPE,
  UNIQUE_ID_MAX_BYTES,
  V1_MAX_BYTES,
  V2_ADDRESS_BYTES,
  V2_COMMAND,
  V2_FAMILY,
  V2_FIXED_BYTES,
  V2_SIGNATURE,
  V2_TRANSPORT,
  V2_VERSION,
} from "./proxy-header.ts";

interface Tlv {
  readonly type: number;
  readonly value: Uint8Array;
}

export interface ParsedHeader {
  readonly version: 1 | 2;
  readonly command: "PROXY" | "LOCAL";
  /**
   * Undefined for LOCAL, UNKNOWN, UNIX and datagrams: then the connection's own addresses apply. An IPv4-mapped
   * address is read as IPv4.
   */
  readonly endpoints: Endpoints | undefined;
  readonly tlvs: readonly Tlv[];
}

/** `partial`: the bytes so far may begin a header, so read more. `length`: where the payload starts. */
export type ParseResult =
  | { readonly status: "complete"; readonly header: ParsedHeader; readonly length: number }
  | { readonly status: "partial" }
  | { readonly status: "invalid"; readonly reason: Reason };

const V1_START = Buffer.from("PROXY ", "latin1");
const PARTIAL: ParseResult = { status: "partial" };

/**
 * Reads a header of either version from the first bytes of a connection. Never throws. Strict, as section 2 requires:
 * bytes that do not match are invalid, and no address is read before the header is complete.
 */
export function parseHeader(bytes: Uint8Array): ParseResult {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (startsLike(buffer, V1_START)) return parseV1(buffer);
  if (startsLike(buffer, V2_SIGNATURE)) return parseV2(buffer);
  return invalid("not-proxy-protocol", "the connection does not begin with a PROXY protocol header");
}

/** Whether `buffer` begins with `start`, or is a beginning of it. */
function startsLike(buffer: Buffer, start: Uint8Array): boolean {
  const length = Math.min(buffer.length, start.length);
  return buffer.compare(start, 0, length, 0, length) === 0;
}

function invalid(code: string, text: string): ParseResult {
  return { status: "invalid", reason: { code, text } };
}

function parseV1(buffer: Buffer): ParseResult {
  const window = buffer.subarray(0, V1_MAX_BYTES);
  const end = window.indexOf("\r\n", 0, "latin1");
  if (end === -1) {
    // 2.1: no CRLF within 107 bytes makes the line invalid.
    return window.length === V1_MAX_BYTES ? invalid("v1-too-long", "no CRLF in the first 107 bytes") : PARTIAL;
  }
  const header = v1Header(window.toString("latin1", 0, end));
  if (header === undefined) return invalid("v1-malformed", "the PROXY line is malformed");
  return { status: "complete", header, length: end + 2 };
}

function v1Header(line: string): ParsedHeader | undefined {
  // 2.1: after UNKNOWN "the receiver must ignore anything presented before the CRLF".
  if (line === "PROXY UNKNOWN" || line.startsWith("PROXY UNKNOWN ")) {
    return { version: 1, command: "PROXY", endpoints: undefined, tlvs: [] };
  }
  const [, family, from, to, fromPort, toPort, ...rest] = line.split(" ");
  const source = v1Endpoint(family, from, fromPort);
  const destination = v1Endpoint(family, to, toPort);
  if (source === undefined || destination === undefined || rest.length > 0) return undefined;
  return { version: 1, command: "PROXY", endpoints: { source, destination }, tlvs: [] };
}

function v1Endpoint(family: string | undefined, address = "", port = ""): Endpoints["source"] | undefined {
  if (family !== "TCP4" && family !== "TCP6") return undefined;
  // net's isIPv4 refuses leading zeros and short forms, as 2.1 requires. 2.1 has no dotted tail in an IPv6 address, but
  // HAProxy writes one.
  const bytes = (family === "TCP4") === isIPv4(address) && !address.includes("%") ? addressBytes(address) : undefined;
  if (bytes === undefined || !/^(0|[1-9][0-9]{0,4})$/.test(port) || Number(port) > 65_535) return undefined;
  return { address: addressText(bytes), port: Number(port) };
}

function parseV2(buffer: Buffer): ParseResult {
  if (buffer.length < V2_FIXED_BYTES) return PARTIAL;
  const isLocal = (buffer.readUInt8(12) & 0xf) === V2_COMMAND.local;
  const family = buffer.readUInt8(13) >> 4;
  const transport = buffer.readUInt8(13) & 0xf;
  const fault = v2Command(buffer.readUInt8(12)) ?? (isLocal ? undefined : v2Family(family, transport, buffer));
  if (fault !== undefined) return fault;
  const length = V2_FIXED_BYTES + buffer.readUInt16BE(14);
  if (buffer.length < length) return PARTIAL;
  const header = buffer.subarray(0, length);
  // 2.2: skip a LOCAL header's block and ignore its family.
  if (isLocal) return complete(header, { command: "LOCAL", endpoints: undefined, tlvs: [] });
  const tlvs = readTlvs(header, V2_FIXED_BYTES + (V2_ADDRESS_BYTES[family] ?? 0));
  if (tlvs === undefined) return invalid("v2-tlv", "a TLV is malformed");
  if (!checksumHolds(header, tlvs)) return invalid("v2-checksum", "the CRC-32C does not match");
  const endpoints = transport === V2_TRANSPORT.stream ? v2Endpoints(header, family) : undefined;
  return complete(header, { command: "PROXY", endpoints, tlvs });
}

function v2Command(byte: number): ParseResult | undefined {
  if (byte >> 4 !== V2_VERSION) return invalid("v2-version", `version ${byte >> 4} in a version 2 header`);
  // LOCAL is 0 and PROXY is 1. The rest is unassigned and "must be dropped" (2.2).
  return (byte & 0xf) <= V2_COMMAND.proxy ? undefined : invalid("v2-command", `unassigned command ${byte & 0xf}`);
}

function v2Family(family: number, transport: number, fixed: Buffer): ParseResult | undefined {
  const addressBlock = V2_ADDRESS_BYTES[family];
  if (addressBlock === undefined || transport > V2_TRANSPORT.datagram) {
    return invalid("v2-family", `unassigned family ${family} or transport ${transport}`);
  }
  return fixed.readUInt16BE(14) < addressBlock ? invalid("v2-length", "shorter than its address block") : undefined;
}

function complete(header: Buffer, fields: Omit<ParsedHeader, "version">): ParseResult {
  return { status: "complete", header: { version: 2, ...fields }, length: header.length };
}

function v2Endpoints(header: Buffer, family: number): Endpoints | undefined {
  if (family !== V2_FAMILY.ipv4 && family !== V2_FAMILY.ipv6) return undefined;
  const size = family === V2_FAMILY.ipv4 ? 4 : 16;
  const at = (start: number): string => normalAddress(addressText(header.subarray(start, start + size)));
  const ports = V2_FIXED_BYTES + 2 * size;
  return {
    source: { address: at(V2_FIXED_BYTES), port: header.readUInt16BE(ports) },
    destination: { address: at(V2_FIXED_BYTES + size), port: header.readUInt16BE(ports + 2) },
  };
}

function readTlvs(header: Buffer, start: number): Tlv[] | undefined {
  const tlvs: Tlv[] = [];
  let offset = start;
  while (offset < header.length) {
    if (offset + TLV_HEAD_BYTES > header.length) return undefined;
    const type = header.readUInt8(offset);
    const valueStart = offset + TLV_HEAD_BYTES;
    offset = valueStart + header.readUInt16BE(offset + 1);
    if (offset > header.length) return undefined;
    const value = header.subarray(valueStart, offset);
    if (type === TLV_TYPE.crc32c && value.length !== 4) return undefined;
    if (type === TLV_TYPE.uniqueId && value.length > UNIQUE_ID_MAX_BYTES) return undefined;
    tlvs.push({ type, value });
  }
  return tlvs;
}

/** 2.2.3: the checksum is computed with its own field at zero. True if the header has no checksum. */
function checksumHolds(header: Buffer, tlvs: readonly Tlv[]): boolean {
  const field = tlvs.find((tlv) => tlv.type === TLV_TYPE.crc32c)?.value;
  if (field === undefined) return true;
  const zeroed = Buffer.from(header);
  zeroed.fill(0, field.byteOffset - header.byteOffset, field.byteOffset - header.byteOffset + 4);
  return crc32c(zeroed) === Buffer.from(field).readUInt32BE(0);
}
