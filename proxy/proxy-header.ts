import { randomUUID } from "node:crypto";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { type AddressBytes, addressBytes, addressText, mappedBytes } from "./address.ts";
import { crc32c } from "./crc32c.ts";

/*
 * The PROXY protocol header. Section numbers refer to https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt.
 *
 * Version 1 (2.1), one line of at most 107 bytes:
 *
 *     PROXY TCP4 192.0.2.7 198.51.100.9 41234 443\r\n
 *           |    |         |            |     +--- destination port
 *           |    |         |            +--------- source port
 *           |    |         +---------------------- destination: the address that the client called
 *           |    +-------------------------------- source: the client
 *           +------------------------------------- TCP4 | TCP6 | UNKNOWN
 *
 * Version 2 (2.2), numbers in network order:
 *
 *      0                           12      13      14          16                    28 or 52
 *     +---------------------------+-------+-------+-----------+---------------------+--------------------+
 *     | 0d 0a 0d 0a 00 0d 0a      | ver 2 | fam   | bytes that| source address      | TLVs: type (1),    |
 *     | 51 55 49 54 0a            | cmd   | proto | follow    | destination address | length (2), value; |
 *     | (signature)               | 4 + 4 | 4 + 4 |           | source port, dest.  | CRC-32C, unique id |
 *     +---------------------------+-------+-------+-----------+---------------------+--------------------+
 *     cmd: 0 LOCAL, 1 PROXY.  fam: 1 IPv4, 2 IPv6.  proto: 1 stream.
 */
export const V1_MAX_BYTES = 107;
export const V2_SIGNATURE: Uint8Array = Buffer.from("0d0a0d0a000d0a515549540a", "hex");
export const V2_FIXED_BYTES = 16;
export const V2_VERSION = 2;
export const V2_COMMAND = { local: 0, proxy: 1 } as const;
export const V2_FAMILY = { ipv4: 1, ipv6: 2 } as const;
export const V2_TRANSPORT = { stream: 1, datagram: 2 } as const;
/** Bytes of a family's address block (unspecified, IPv4, IPv6, UNIX): two addresses, and two ports if it has ports. */
export const V2_ADDRESS_BYTES: readonly number[] = [0, 12, 36, 216];
export const TLV_TYPE = { crc32c: 0x03, uniqueId: 0x05 } as const;
export const TLV_HEAD_BYTES = 3;
/** 2.2.5: an opaque byte sequence of up to 128 bytes. */
export const UNIQUE_ID_MAX_BYTES = 128;

export interface Endpoint {
  /** IPv4 or IPv6 literal. */
  readonly address: string;
  readonly port: number;
}

/** The two ends of the client's connection: the caller and the called address. */
export interface Endpoints {
  readonly source: Endpoint;
  readonly destination: Endpoint;
}

interface V2Options {
  /** Adds the checksum over the whole header (2.2.3). */
  readonly crc32c?: boolean;
  /** Adds this connection's id (2.2.5), at most 128 bytes. */
  readonly uniqueId?: Uint8Array;
}

/** The configured TLVs of a version 2 header. */
export interface TlvOptions {
  /**
   * A CRC-32C checksum of the header. A receiver that supports it must drop a connection whose header does not match.
   */
  readonly crc32c: boolean;
  /** An id of this connection for the receiver's log: a random UUID as text. */
  readonly uniqueId: boolean;
}

const NO_OPTIONS: V2Options = {};

/** The options of one connection's header. */
export function v2Options(wanted: TlvOptions | undefined): V2Options {
  if (wanted === undefined) return NO_OPTIONS;
  const { crc32c, uniqueId } = wanted;
  return uniqueId ? { crc32c, uniqueId: Buffer.from(randomUUID(), "latin1") } : { crc32c };
}

/**
 * The header for one connection. An IPv4-mapped IPv6 address counts as IPv4. If only one end is IPv4, both are
 * written as IPv6, with the IPv4 one mapped, as HAProxy does. 2.1 requires both addresses in one family, and allows
 * `UNKNOWN` only "when it is not possible to correctly fill the PROXY line". Throws `input-invalid` if an address is
 * not an IP literal, a port is out of range or the unique id is too long.
 */
export function encodeHeader(
  version: "v1" | "v2",
  { source, destination }: Endpoints,
  options: V2Options = NO_OPTIONS,
): Buffer {
  const ends = {
    source: checkedAddress(source),
    sourcePort: checkedPort(source),
    destination: checkedAddress(destination),
    destinationPort: checkedPort(destination),
  };
  return encodeHeaderOf(version, ends, options);
}

/** The two ends as bytes: 4 or 16 each. An IPv4-mapped address has 4. */
interface EndBytes {
  readonly source: AddressBytes;
  readonly sourcePort: number;
  readonly destination: AddressBytes;
  readonly destinationPort: number;
}

/** Like `encodeHeader`, for addresses in bytes. */
export function encodeHeaderOf(version: "v1" | "v2", ends: EndBytes, options: V2Options = NO_OPTIONS): Buffer {
  const { source, destination } = ends;
  const isOneFamily = source.length === destination.length;
  const from = isOneFamily ? source : mappedBytes(source);
  const to = isOneFamily ? destination : mappedBytes(destination);
  return version === "v1" ? encodeV1(from, to, ends) : encodeV2(from, to, ends, options);
}

function encodeV1(from: AddressBytes, to: AddressBytes, { sourcePort, destinationPort }: EndBytes): Buffer {
  const family = from.length === 4 ? "TCP4" : "TCP6";
  const line = `PROXY ${family} ${addressText(from)} ${addressText(to)} ${sourcePort} ${destinationPort}\r\n`;
  return Buffer.from(line, "latin1");
}

function encodeV2(from: AddressBytes, to: AddressBytes, ends: EndBytes, options: V2Options): Buffer {
  const family = from.length === 4 ? V2_FAMILY.ipv4 : V2_FAMILY.ipv6;
  const ports = Buffer.alloc(4);
  ports.writeUInt16BE(ends.sourcePort, 0);
  ports.writeUInt16BE(ends.destinationPort, 2);
  const body = Buffer.concat([from, to, ports, ...tlvs(options)]);
  const fixed = Buffer.alloc(V2_FIXED_BYTES);
  fixed.set(V2_SIGNATURE);
  fixed[12] = (V2_VERSION << 4) | V2_COMMAND.proxy;
  fixed[13] = (family << 4) | V2_TRANSPORT.stream;
  fixed.writeUInt16BE(body.length, 14);
  const header = Buffer.concat([fixed, body]);
  // 2.2.3: the checksum covers the whole header, with its own field at zero. The field is last, see tlvs().
  if (options.crc32c === true) header.writeUInt32BE(crc32c(header), header.length - 4);
  return header;
}

/** The optional TLVs. The checksum TLV comes last, and its value is still zero. */
function tlvs({ uniqueId, crc32c: withChecksum }: V2Options): Buffer[] {
  const parts: Buffer[] = [];
  if (uniqueId !== undefined) {
    if (uniqueId.length > UNIQUE_ID_MAX_BYTES) {
      throw new SwitchbackError("input-invalid", `a unique id has at most 128 bytes, this one has ${uniqueId.length}`);
    }
    parts.push(tlv(TLV_TYPE.uniqueId, uniqueId));
  }
  if (withChecksum === true) parts.push(tlv(TLV_TYPE.crc32c, new Uint8Array(4)));
  return parts;
}

function tlv(type: number, value: Uint8Array): Buffer {
  return Buffer.concat([Uint8Array.of(type, value.length >> 8, value.length & 0xff), value]);
}

function checkedAddress({ address }: Endpoint): AddressBytes {
  const bytes = addressBytes(address);
  if (bytes === undefined) throw new SwitchbackError("input-invalid", `not an IP address: ${JSON.stringify(address)}`);
  return bytes;
}

function checkedPort({ port }: Endpoint): number {
  if (Number.isInteger(port) && port >= 0 && port <= 65_535) return port;
  throw new SwitchbackError("input-invalid", `not a TCP port: ${port}`);
}
