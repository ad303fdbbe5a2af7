import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "#test/property.ts";
import { normalAddress } from "./address.ts";
import { crc32c } from "./crc32c.ts";
import { encodeHeader } from "./proxy-header.ts";
import { type ParseResult, parseHeader } from "./proxy-header-parse.ts";

const SIGNATURE = "0d0a0d0a000d0a515549540a";
const V4_BLOCK = "c0000207c6336409a11201bb";

function hex(...parts: string[]): Buffer {
  return Buffer.from(parts.join(""), "hex");
}

function text(line: string): Buffer {
  return Buffer.from(line, "latin1");
}

const address = fc.oneof(fc.ipV4(), fc.ipV6());
const endpoint = fc.record({ address, port: fc.nat(65535) });
const options = fc.record(
  { crc32c: fc.boolean(), uniqueId: fc.uint8Array({ maxLength: 128 }) },
  { requiredKeys: ["crc32c"] },
);
const encoded = fc.record({
  version: fc.constantFrom("v1" as const, "v2" as const),
  endpoints: fc.record({ source: endpoint, destination: endpoint }),
  options,
});

test("the parser reads every header that the encoder writes, whatever bytes follow it", () => {
  fc.assert(
    fc.property(encoded, fc.uint8Array({ maxLength: 40 }), ({ version, endpoints, options: v2 }, payload) => {
      const header = encodeHeader(version, endpoints, v2);
      const result = parseHeader(Buffer.concat([header, payload]));
      assert.ok(result.status === "complete", JSON.stringify(result));
      assert.equal(result.length, header.length);
      assert.equal(result.header.version, version === "v1" ? 1 : 2);
      assert.equal(result.header.command, "PROXY");
      for (const end of ["source", "destination"] as const) {
        assert.equal(result.header.endpoints?.[end].address, normalAddress(endpoints[end].address));
        assert.equal(result.header.endpoints?.[end].port, endpoints[end].port);
      }
      if (version === "v2") {
        const types = result.header.tlvs.map((tlv) => tlv.type);
        assert.deepEqual(types, [...(v2.uniqueId ? [5] : []), ...(v2.crc32c ? [3] : [])]);
        if (v2.uniqueId) assert.deepEqual(Buffer.from(result.header.tlvs[0]!.value), Buffer.from(v2.uniqueId));
      }
    }),
  );
});

test("every beginning of a header is partial, never invalid, never complete", () => {
  fc.assert(
    fc.property(encoded, ({ version, endpoints, options: v2 }) => {
      const header = encodeHeader(version, endpoints, v2);
      for (let length = 0; length < header.length; length += 1) {
        assert.equal(parseHeader(header.subarray(0, length)).status, "partial", `${length} of ${header.length}`);
      }
    }),
    { numRuns: 50 },
  );
});

test("random bytes, even after a valid start, never make the parser throw", () => {
  const starts = [text(""), text("PROXY "), text("PROXY TCP4 "), hex(SIGNATURE), hex(SIGNATURE, "2111")];
  fc.assert(
    fc.property(fc.constantFrom(...starts), fc.uint8Array({ maxLength: 300 }), (start, bytes) => {
      const all = Buffer.concat([start, bytes]);
      const result = parseHeader(all);
      if (result.status === "complete") assert.ok(result.length <= all.length);
    }),
    { numRuns: 2000 },
  );
});

test("a header with a checksum and one flipped bit is never read as the original header", () => {
  const header = encodeHeader(
    "v2",
    { source: { address: "192.0.2.7", port: 1 }, destination: { address: "192.0.2.8", port: 2 } },
    { crc32c: true },
  );
  for (let bit = 0; bit < header.length * 8; bit += 1) {
    const flipped = Buffer.from(header);
    flipped.writeUInt8(flipped.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
    const result = parseHeader(flipped);
    // A flip may make the block longer (partial), a LOCAL header (which carries nothing), or hide the checksum's type
    // (a TLV like any other).
    const harmless = result.status === "complete" && (result.header.command === "LOCAL" || bit >> 3 === 28);
    assert.ok(result.status !== "complete" || harmless, `bit ${bit}`);
  }
});

function checksummed(block: string): Buffer {
  const header = hex(SIGNATURE, block, "03000400000000");
  header.writeUInt32BE(crc32c(header), header.length - 4);
  return header;
}

/** Endpoints as `source > destination`; TLVs as type and value in hex. */
function shown(result: ParseResult) {
  if (result.status !== "complete") return result;
  const { version, command, endpoints, tlvs } = result.header;
  const ends = endpoints && [endpoints.source, endpoints.destination].map(({ address, port }) => `${address} ${port}`);
  const values = tlvs.map(({ type, value }) => `${type}: ${Buffer.from(value).toString("hex")}`);
  return [`v${version} ${command}`, ends?.join(" > "), ...values];
}

const V6_BLOCK = `20010db8000000000000000000000007${"00".repeat(15)}01a11201bb`;
const V4_ENDS = "192.0.2.7 41234 > 198.51.100.9 443";

const accepted: [string, Buffer, (string | undefined)[]][] = [
  ["v1 over IPv4", text("PROXY TCP4 192.0.2.7 198.51.100.9 41234 443\r\n"), ["v1 PROXY", V4_ENDS]],
  [
    "v1 with the extremes of a port",
    text("PROXY TCP4 1.2.3.4 5.6.7.8 0 65535\r\n"),
    ["v1 PROXY", "1.2.3.4 0 > 5.6.7.8 65535"],
  ],
  ["v1 UNKNOWN, short form", text("PROXY UNKNOWN\r\n"), ["v1 PROXY", undefined]],
  ["v1 UNKNOWN with anything before the CRLF", text("PROXY UNKNOWN \x00 what\rever\n\r\n"), ["v1 PROXY", undefined]],
  ["v1 of 107 bytes", text(`PROXY UNKNOWN ${"f".repeat(91)}\r\n`), ["v1 PROXY", undefined]],
  ["v1 IPv6 in capitals", text("PROXY TCP6 2001:DB8::7 ::1 1 2\r\n"), ["v1 PROXY", "2001:db8::7 1 > ::1 2"]],
  [
    "v1 mapped as HAProxy writes it",
    text("PROXY TCP6 ::ffff:192.0.2.7 ::1 1 2\r\n"),
    ["v1 PROXY", "192.0.2.7 1 > ::1 2"],
  ],
  ["v2 over IPv4", hex(SIGNATURE, "2111000c", V4_BLOCK), ["v2 PROXY", V4_ENDS]],
  ["v2 over IPv6", hex(SIGNATURE, "21210024", V6_BLOCK), ["v2 PROXY", "2001:db8::7 41234 > ::1 443"]],
  ["v2 LOCAL without addresses", hex(SIGNATURE, "20000000"), ["v2 LOCAL", undefined]],
  ["v2 LOCAL whose block must be skipped", hex(SIGNATURE, "20ff0003010203"), ["v2 LOCAL", undefined]],
  ["v2 UNSPEC", hex(SIGNATURE, "21000000"), ["v2 PROXY", undefined]],
  ["v2 UNSPEC with a TLV", hex(SIGNATURE, "21000004", "e0000107"), ["v2 PROXY", undefined, "224: 07"]],
  ["v2 UDP over IPv4: no TCP addresses in it", hex(SIGNATURE, "2112000c", V4_BLOCK), ["v2 PROXY", undefined]],
  ["v2 of no transport", hex(SIGNATURE, "2110000c", V4_BLOCK), ["v2 PROXY", undefined]],
  ["v2 UNIX stream", hex(SIGNATURE, "213100d8", "00".repeat(216)), ["v2 PROXY", undefined]],
  ["v2 with an unknown TLV", hex(SIGNATURE, "2111000f", V4_BLOCK, "e00000"), ["v2 PROXY", V4_ENDS, "224: "]],
  [
    "v2 with a unique id of 128 bytes",
    hex(SIGNATURE, "2111008f", V4_BLOCK, "050080", "ab".repeat(128)),
    ["v2 PROXY", V4_ENDS, `5: ${"ab".repeat(128)}`],
  ],
  [
    "v2 with a right checksum",
    checksummed(`21110013${V4_BLOCK}`),
    ["v2 PROXY", V4_ENDS, `3: ${checksummed(`21110013${V4_BLOCK}`).subarray(-4).toString("hex")}`],
  ],
];

for (const [title, bytes, expected] of accepted) {
  test(`accepted: ${title}`, () => {
    const behind = Buffer.concat([bytes, text("payload")]);
    for (const all of [bytes, behind]) {
      const result = parseHeader(all);
      assert.deepEqual(shown(result), expected);
      assert.equal(result.status === "complete" && result.length, bytes.length);
    }
  });
}

test("a line of 106 bytes without a CRLF may still get one", () => {
  assert.equal(parseHeader(text(`PROXY UNKNOWN ${"f".repeat(92)}`)).status, "partial");
});

const rejected: [string, Buffer, string][] = [
  ["an HTTP request", text("GET / HTTP/1.1\r\n"), "not-proxy-protocol"],
  ["a TLS record", hex("16030100a5"), "not-proxy-protocol"],
  ["PROXY without a space", text("PROXYTCP4"), "not-proxy-protocol"],
  ["lower case", text("proxy TCP4"), "not-proxy-protocol"],
  ["a signature with one wrong byte", hex("0d0a0d0a000d0a515549540b"), "not-proxy-protocol"],
  ["two spaces", text("PROXY TCP4  192.0.2.7 192.0.2.8 1 2\r\n"), "v1-malformed"],
  ["a leading zero in an address", text("PROXY TCP4 192.0.02.7 192.0.2.8 1 2\r\n"), "v1-malformed"],
  ["a leading zero in a port", text("PROXY TCP4 192.0.2.7 192.0.2.8 01 2\r\n"), "v1-malformed"],
  ["UNKNOWN with a tail", text("PROXY UNKNOWNX\r\n"), "v1-malformed"],
  ["a port with a tail", text("PROXY TCP4 192.0.2.7 192.0.2.8 1x 2\r\n"), "v1-malformed"],
  ["a port with a sign", text("PROXY TCP4 192.0.2.7 192.0.2.8 1 +2\r\n"), "v1-malformed"],
  ["a port of six digits", text("PROXY TCP4 192.0.2.7 192.0.2.8 100000 2\r\n"), "v1-malformed"],
  ["no addresses", text("PROXY TCP4\r\n"), "v1-malformed"],
  ["108 bytes with a CRLF", text(`PROXY UNKNOWN ${"f".repeat(92)}\r\n`), "v1-too-long"],
  ["version 3 in a binary header", hex(SIGNATURE, "31110000"), "v2-version"],
  ["an IPv6 block that is too short", hex(SIGNATURE, "21210023"), "v2-length"],
  ["a UNIX block that is too short", hex(SIGNATURE, "213100d7"), "v2-length"],
  ["port 65536", text("PROXY TCP4 192.0.2.7 192.0.2.8 65536 2\r\n"), "v1-malformed"],
  ["a missing port", text("PROXY TCP4 192.0.2.7 192.0.2.8 1\r\n"), "v1-malformed"],
  ["a field too many", text("PROXY TCP4 192.0.2.7 192.0.2.8 1 2 3\r\n"), "v1-malformed"],
  ["an IPv6 address under TCP4", text("PROXY TCP4 ::1 192.0.2.8 1 2\r\n"), "v1-malformed"],
  ["an IPv4 address under TCP6", text("PROXY TCP6 192.0.2.7 ::1 1 2\r\n"), "v1-malformed"],
  ["a zone", text("PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n"), "v1-malformed"],
  ["an unknown family", text("PROXY UDP4 192.0.2.7 192.0.2.8 1 2\r\n"), "v1-malformed"],
  ["a bare LF", text(`PROXY TCP4 192.0.2.7 192.0.2.8 1 2\n${"x".repeat(107)}`), "v1-too-long"],
  ["107 bytes without a CRLF", text(`PROXY UNKNOWN ${"f".repeat(93)}`), "v1-too-long"],
  ["version 1 in a binary header", hex(SIGNATURE, "11110000"), "v2-version"],
  ["an unassigned command", hex(SIGNATURE, "22110000"), "v2-command"],
  ["an unassigned family", hex(SIGNATURE, "21410000"), "v2-family"],
  ["an unassigned transport", hex(SIGNATURE, "2113000c"), "v2-family"],
  ["a length below the address block's", hex(SIGNATURE, "2111000b"), "v2-length"],
  ["a TLV that ends early", hex(SIGNATURE, "2111000f", V4_BLOCK, "e00001"), "v2-tlv"],
  ["half a TLV head", hex(SIGNATURE, "2111000e", V4_BLOCK, "e000"), "v2-tlv"],
  ["a checksum of three bytes", hex(SIGNATURE, "21110012", V4_BLOCK, "030003000000"), "v2-tlv"],
  ["a unique id of 129 bytes", hex(SIGNATURE, "21110090", V4_BLOCK, "050081", "00".repeat(129)), "v2-tlv"],
  ["a wrong checksum", hex(SIGNATURE, "21110013", V4_BLOCK, "03000400000001"), "v2-checksum"],
];

for (const [title, bytes, code] of rejected) {
  test(`refused as ${code}: ${title}`, () => {
    const result: ParseResult = parseHeader(bytes);
    assert.ok(result.status === "invalid", JSON.stringify(result));
    assert.equal(result.reason.code, code);
  });
}
