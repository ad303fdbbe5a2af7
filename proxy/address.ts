import { isIPv4, isIPv6 } from "node:net";

/** An IP address as 4 or 16 bytes in network byte order. */
export type AddressBytes = Uint8Array;

const MAPPED_PREFIX = Uint8Array.from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);

/**
 * Normalises an address for comparing and counting. An IPv4-mapped IPv6 address (a `::` socket reports IPv4 peers so)
 * becomes the IPv4 address. A zone (`%eth0`) is removed. Text that is not an address is returned unchanged.
 */
export function normalAddress(text: string): string {
  if (isIPv4(text)) return text;
  const bytes = addressBytes(text);
  return bytes === undefined ? text : addressText(bytes);
}

/** The bytes of an IP literal. An IPv4-mapped one counts as IPv4. Undefined for any other text. */
export function addressBytes(text: string): AddressBytes | undefined {
  if (isIPv4(text)) return ipv4Bytes(text);
  const zone = text.indexOf("%");
  const bare = zone === -1 ? text : text.slice(0, zone);
  if (!isIPv6(bare)) return undefined;
  const bytes = ipv6Bytes(bare);
  return MAPPED_PREFIX.every((byte, index) => bytes[index] === byte) ? bytes.subarray(12) : bytes;
}

/** The IPv4-mapped IPv6 address of 4 bytes (RFC 4291, 2.5.5.2). Returns 16 bytes unchanged. */
export function mappedBytes(bytes: AddressBytes): AddressBytes {
  if (bytes.length === 16) return bytes;
  const mapped = new Uint8Array(16);
  mapped.set(MAPPED_PREFIX);
  mapped.set(bytes, MAPPED_PREFIX.length);
  return mapped;
}

/** An address as text: dotted for 4 bytes, RFC 5952 for 16. IPv6 text never has a dotted part. */
export function addressText(bytes: AddressBytes): string {
  return bytes.length === 4 ? `${bytes[0]}.${bytes[1]}.${bytes[2]}.${bytes[3]}` : ipv6Text(bytes);
}

/** An address with a port as readable text: IPv6 in brackets, as in a URL. */
export function endpointText(address: string, port: number): string {
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}

function ipv4Bytes(text: string): AddressBytes {
  return Uint8Array.from(text.split("."), Number);
}

/** `text` must be an IPv6 literal without a zone. */
function ipv6Bytes(text: string): AddressBytes {
  const [head = "", tail] = text.split("::");
  const left = groupBytes(head);
  const right = tail === undefined ? [] : groupBytes(tail);
  const bytes = new Uint8Array(16);
  bytes.set(left);
  bytes.set(right, 16 - right.length);
  return bytes;
}

function groupBytes(text: string): number[] {
  if (text === "") return [];
  return text.split(":").flatMap((group) => {
    if (group.includes(".")) return [...ipv4Bytes(group)];
    const word = Number.parseInt(group, 16);
    return [word >> 8, word & 0xff];
  });
}

function ipv6Text(bytes: AddressBytes): string {
  const words: string[] = [];
  for (let index = 0; index < 16; index += 2) {
    words.push((((bytes[index] ?? 0) << 8) | (bytes[index + 1] ?? 0)).toString(16));
  }
  const zeros = longestZeroRun(words);
  if (zeros.length < 2) return words.join(":");
  return `${words.slice(0, zeros.start).join(":")}::${words.slice(zeros.start + zeros.length).join(":")}`;
}

function longestZeroRun(words: readonly string[]): { start: number; length: number } {
  let best = { start: 0, length: 0 };
  let start = 0;
  for (let index = 0; index <= words.length; index += 1) {
    if (words[index] === "0") continue;
    if (index - start > best.length) best = { start, length: index - start };
    start = index + 1;
  }
  return best;
}
