import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
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

test("what the encoder writes, the parser reads, whatever follows the header", () => {
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

test("random bytes, also behind a true start, give a result and no exception", () => {
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

test("one flipped bit in a header with a checksum never passes as the same header", () => {
  const header = encodeHeader(
    "v2",
    { source: { address: "192.0.2.7", port: 1 }, destination: { address: "192.0.2.8", port: 2 } },
    { crc32c: true },
  );
  for (let bit = 0; bit < header.length * 8; bit += 1) {
    const flipped = Buffer.from(header);
    flipped.writeUInt8(flipped.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
    const result = parseHeader(flipped);
    // A flip may make the block longer (partial), a LOCAL header (which carries nothing), or hide the checksum's type (a TLV like any other).
    const harmless = result.status === "complete" && (result.header.command === "LOCAL" || bit >> 3 === 28);
    assert.ok(result.status !== "complete" || harmless, `bit ${bit}`);
  }
});

function checksummed(block: string): Buffer {
  const header = hex(SIGNATURE, block, "03000400000000");
  header.writeUInt32BE(crc32c(header), header.length - 4);
  return header;
}

const accepted: [string, Buffer, { command: "PROXY" | "LOCAL"; source?: string; tlvs?: number }][] = [
  ["v1 UNKNOWN, short form", text("PROXY UNKNOWN\r\n"), { command: "PROXY" }],
  ["v1 UNKNOWN with anything before the CRLF", text("PROXY UNKNOWN \x00 what\rever\n\r\n"), { command: "PROXY" }],
  ["v1 IPv6 in capitals", text("PROXY TCP6 2001:DB8::7 ::1 1 2\r\n"), { command: "PROXY", source: "2001:db8::7" }],
  [
    "v1 mapped as HAProxy writes it",
    text("PROXY TCP6 ::ffff:192.0.2.7 ::1 1 2\r\n"),
    { command: "PROXY", source: "192.0.2.7" },
  ],
  ["v2 LOCAL without addresses", hex(SIGNATURE, "20000000"), { command: "LOCAL" }],
  ["v2 LOCAL whose block must be skipped", hex(SIGNATURE, "20ff0003010203"), { command: "LOCAL" }],
  ["v2 UNSPEC", hex(SIGNATURE, "21000000"), { command: "PROXY" }],
  ["v2 UDP over IPv4: no TCP addresses in it", hex(SIGNATURE, "2112000c", V4_BLOCK), { command: "PROXY" }],
  ["v2 UNIX stream", hex(SIGNATURE, "213100d8", "00".repeat(216)), { command: "PROXY" }],
  [
    "v2 with an unknown TLV",
    hex(SIGNATURE, "2111000f", V4_BLOCK, "e00000"),
    { command: "PROXY", source: "192.0.2.7", tlvs: 1 },
  ],
  ["v2 with a right checksum", checksummed(`21110013${V4_BLOCK}`), { command: "PROXY", source: "192.0.2.7", tlvs: 1 }],
];

for (const [title, bytes, expected] of accepted) {
  test(`accepted: ${title}`, () => {
    const result = parseHeader(bytes);
    assert.ok(result.status === "complete", JSON.stringify(result));
    assert.equal(result.length, bytes.length);
    assert.equal(result.header.command, expected.command);
    assert.equal(result.header.endpoints?.source.address, expected.source);
    assert.equal(result.header.tlvs.length, expected.tlvs ?? 0);
  });
}

const rejected: [string, Buffer, string][] = [
  ["an HTTP request", text("GET / HTTP/1.1\r\n"), "not-proxy-protocol"],
  ["a TLS record", hex("16030100a5"), "not-proxy-protocol"],
  ["PROXY without a space", text("PROXYTCP4"), "not-proxy-protocol"],
  ["lower case", text("proxy TCP4"), "not-proxy-protocol"],
  ["a signature with one wrong byte", hex("0d0a0d0a000d0a515549540b"), "not-proxy-protocol"],
  ["two spaces", text("PROXY TCP4  192.0.2.7 192.0.2.8 1 2\r\n"), "v1-malformed"],
  ["a leading zero in an address", text("PROXY TCP4 192.0.02.7 192.0.2.8 1 2\r\n"), "v1-malformed"],
  ["a leading zero in a port", text("PROXY TCP4 192.0.2.7 192.0.2.8 01 2\r\n"), "v1-malformed"],
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
